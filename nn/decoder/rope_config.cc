// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/rope_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/nn/config_reader.h"

namespace zeroth {
namespace {

constexpr char kParameters[] = "rope_parameters";
constexpr char kScaling[] = "rope_scaling";
constexpr char kTheta[] = "rope_theta";
constexpr char kOriginal[] = "original_max_position_embeddings";

double NumberOr(ConfigReader& reader, const char* key, double fallback) {
  return reader.Has(key) ? reader.Number(key) : fallback;
}

// The factor by which YaRN lengthens vectors (its equation 22, with DeepSeek's coefficient).
double YarnLength(double factor, double coefficient) {
  return factor <= 1.0 ? 1.0 : 0.1 * coefficient * std::log(factor) + 1.0;
}

// Reads kOriginal. `beside` is the value of the same key beside the object, 0 if absent.
int64_t ReadOriginal(ConfigReader& reader, int64_t beside) {
  if (beside == 0) return reader.Size(kOriginal);
  reader.Require(!reader.Has(kOriginal) || reader.Size(kOriginal) == beside, kOriginal,
                 absl::StrCat(beside, ", as '", kOriginal,
                              "' beside the object says; remove the one that is wrong"));
  return beside;
}

void ReadLlama3(ConfigReader& reader, int64_t original, RopeSpec& spec) {
  spec.type = RopeSpec::Type::kLlama3;
  spec.factor = reader.Number("factor");
  spec.low_freq_factor = reader.Number("low_freq_factor");
  spec.high_freq_factor = reader.Number("high_freq_factor");
  spec.original_context = static_cast<double>(ReadOriginal(reader, original));
  reader.Require(spec.high_freq_factor > spec.low_freq_factor, "high_freq_factor",
                 "a number above low_freq_factor");
}

void ReadYarn(ConfigReader& reader, int64_t max_positions, int64_t original, RopeSpec& spec) {
  spec.type = RopeSpec::Type::kYarn;
  const bool said = original != 0 || reader.Has(kOriginal);
  spec.original_context =
      static_cast<double>(said ? ReadOriginal(reader, original) : max_positions);
  spec.factor =
      NumberOr(reader, "factor", static_cast<double>(max_positions) / spec.original_context);
  spec.beta_fast = NumberOr(reader, "beta_fast", spec.beta_fast);
  spec.beta_slow = NumberOr(reader, "beta_slow", spec.beta_slow);
  reader.Require(spec.beta_fast > spec.beta_slow && spec.beta_slow > 0, "beta_fast",
                 "a number above beta_slow, which is above 0");
  if (reader.Has("truncate")) spec.truncate = reader.Flag("truncate");
  const double mscale = NumberOr(reader, "mscale", 0.0);
  const double mscale_all_dim = NumberOr(reader, "mscale_all_dim", 0.0);
  spec.attention_factor = YarnLength(spec.factor, 1.0);
  if (mscale > 0 && mscale_all_dim > 0) {
    spec.attention_factor =
        YarnLength(spec.factor, mscale) / YarnLength(spec.factor, mscale_all_dim);
  }
  spec.attention_factor = NumberOr(reader, "attention_factor", spec.attention_factor);
}

// Reads the object `rope`, the value of `key`. `original` is kOriginal beside it, or 0.
absl::Status ReadObject(const nlohmann::json& rope, const char* key, int64_t max_positions,
                        int64_t original, RopeSpec& spec) {
  ConfigReader reader(rope, absl::StrCat(key, "."));
  for (const auto& [name, value] : rope.items()) {
    reader.Require(!value.is_object(), name, "one kind of rotary positions for all layers");
    constexpr absl::string_view kKnown[] = {kTheta,
                                            kOriginal,
                                            "rope_type",
                                            "type",
                                            "factor",
                                            "low_freq_factor",
                                            "high_freq_factor",
                                            "beta_fast",
                                            "beta_slow",
                                            "truncate",
                                            "mscale",
                                            "mscale_all_dim",
                                            "attention_factor",
                                            "partial_rotary_factor"};
    const bool is_known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
    reader.Require(is_known || value.is_null(), name,
                   "no such key, since it is unknown here; remove it if it changes nothing");
  }
  reader.Require(NumberOr(reader, "partial_rotary_factor", 1.0) == 1.0, "partial_rotary_factor",
                 "1: heads are rotated as a whole");
  spec.theta = NumberOr(reader, kTheta, spec.theta);
  const char* const key_of_type = reader.Has("rope_type") ? "rope_type" : "type";
  const std::string type = reader.Text("rope_type", reader.Text("type", "default"));
  if (type == "linear") {
    spec.type = RopeSpec::Type::kLinear;
    spec.factor = reader.Number("factor");
  } else if (type == "llama3") {
    ReadLlama3(reader, original, spec);
  } else if (type == "yarn") {
    ReadYarn(reader, max_positions, original, spec);
  } else if (type == "dynamic" || type == "longrope") {
    reader.Require(false, key_of_type,
                   "default, linear, llama3 or yarn: frequencies that depend on the length of the "
                   "sequence at hand would train another function at each length");
  } else {
    reader.Require(type == "default", key_of_type, "default, linear, llama3 or yarn");
  }
  reader.Require(spec.factor > 0, "factor", "a number above 0");
  return reader.status();
}

}  // namespace

bool IsRopeKey(absl::string_view key) {
  return key == kParameters || key == kScaling || key == kTheta || key == kOriginal ||
         key == "partial_rotary_factor";
}

absl::StatusOr<RopeSpec> ReadRope(const nlohmann::json& config, const RopeSpec& base,
                                  int64_t max_positions) {
  ConfigReader reader(config);
  RopeSpec spec = base;
  spec.theta = NumberOr(reader, kTheta, spec.theta);
  reader.Require(NumberOr(reader, "partial_rotary_factor", 1.0) == 1.0, "partial_rotary_factor",
                 "1: heads are rotated as a whole");
  const int64_t original = reader.Has(kOriginal) ? reader.Size(kOriginal) : 0;
  for (const char* key : {kParameters, kScaling}) {
    reader.Require(!reader.Has(key) || config.at(key).is_object(), key, "an object");
  }
  ZEROTH_RETURN_IF_ERROR(reader.status());
  if (reader.Has(kParameters) && reader.Has(kScaling)) {
    // transformers 5 uses rope_scaling, which may have been added to a file that it had saved.
    reader.Require(IsSameRope(config.at(kParameters), config.at(kScaling)), kScaling,
                   absl::StrCat("what '", kParameters, "' says; remove the one that is not meant"));
    ZEROTH_RETURN_IF_ERROR(reader.status());
  }
  for (const char* key : {kParameters, kScaling}) {
    if (!reader.Has(key)) continue;
    ZEROTH_RETURN_IF_ERROR(ReadObject(config.at(key), key, max_positions, original, spec));
  }
  reader.Require(spec.theta > 0, kTheta, "a number above 0");
  ZEROTH_RETURN_IF_ERROR(reader.status());
  return spec;
}

absl::StatusOr<RopeSpec> ReadRopeOfLayers(const nlohmann::json& config, absl::string_view kind,
                                          const RopeSpec& base, int64_t max_positions) {
  ConfigReader reader(config);
  nlohmann::json of_kind = nlohmann::json::object();
  if (kind == kFullAttention) {
    for (const char* key : {kTheta, kScaling, kOriginal}) {
      if (reader.Has(key)) of_kind[key] = config.at(key);
    }
  } else if (reader.Has(kLocalRopeTheta)) {
    of_kind[kTheta] = reader.Number(kLocalRopeTheta);
  }
  if (reader.Has(kParameters)) {
    const nlohmann::json& all = config.at(kParameters);
    bool right = all.is_object();
    for (const auto& [name, value] : all.items()) {
      right = right && (name == kFullAttention || name == kSlidingAttention) &&
              (value.is_object() || value.is_null());
    }
    reader.Require(right, kParameters,
                   "an object for each kind of layers: full_attention and sliding_attention");
    if (right && all.contains(kind)) of_kind[kParameters] = all.at(std::string(kind));
  }
  ZEROTH_RETURN_IF_ERROR(reader.status());
  return ReadRope(of_kind, base, max_positions);
}

void CopyRope(const nlohmann::json& from, const RopeSpec& spec, nlohmann::json& to) {
  const ConfigReader reader(from);
  for (const char* key : {kTheta, kLocalRopeTheta, kScaling, kParameters, kOriginal}) {
    if (reader.Has(key)) to[key] = from.at(key);
  }
  if (to.contains(kTheta) || (to.contains(kParameters) && to[kParameters].contains(kTheta))) return;
  to[kTheta] = spec.theta;
}

}  // namespace zeroth
