// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/rope_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

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
constexpr char kShare[] = "partial_rotary_factor";
constexpr char kShortFactor[] = "short_factor";
constexpr char kLongFactor[] = "long_factor";
constexpr int64_t kPhi3Original = 4096;  // Phi3Config's default of kOriginal

double NumberOr(ConfigReader& reader, const char* key, double fallback) {
  return reader.Has(key) ? reader.Number(key) : fallback;
}

// YaRN's attention factor: how much longer vectors become (equation 22, with DeepSeek's
// coefficient).
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

// Reads the share of a head that is rotated.
void ReadShare(ConfigReader& reader, RopeKeys keys, RopeSpec& spec) {
  spec.rotated_share = NumberOr(reader, kShare, spec.rotated_share);
  reader.Require(spec.rotated_share == 1.0 || keys != RopeKeys::kCommon, kShare,
                 "1: heads are rotated as a whole");
  reader.Require(spec.rotated_share > 0 && spec.rotated_share <= 1, kShare,
                 "a number above 0 and at most 1");
}

// As in transformers, a missing factor follows from the positions, and a missing attention factor
// from the factor.
void ReadLongrope(const nlohmann::json& rope, ConfigReader& reader, int64_t max_positions,
                  int64_t original, RopeSpec& spec) {
  spec.type = RopeSpec::Type::kLongrope;
  for (const auto& [key, factors] :
       {std::pair(kShortFactor, &spec.factors), std::pair(kLongFactor, &spec.long_factors)}) {
    factors->clear();  // a file may have two objects that agree
    const auto found = rope.find(key);
    bool right = found != rope.end() && found->is_array();
    for (const nlohmann::json& factor : right ? *found : nlohmann::json::array()) {
      right = right && factor.is_number() && factor.get<double>() > 0;
      if (right) factors->push_back(factor.get<double>());
    }
    reader.Require(right, key, "a list of numbers above 0, one for each pair");
  }
  const bool said = original != 0 || reader.Has(kOriginal);
  spec.original_context =
      static_cast<double>(said ? ReadOriginal(reader, original) : max_positions);
  reader.Require(spec.original_context > 1, kOriginal, "a number above 1");
  const double factor =
      NumberOr(reader, "factor", static_cast<double>(max_positions) / spec.original_context);
  spec.attention_factor = NumberOr(
      reader, "attention_factor",
      factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(spec.original_context)));
}

// Reads the object `rope`, the value of `key`. `original` is kOriginal beside it, or 0.
absl::Status ReadObject(const nlohmann::json& rope, const char* key, int64_t max_positions,
                        int64_t original, RopeKeys keys, RopeSpec& spec) {
  ConfigReader reader(rope, absl::StrCat(key, "."));
  for (const auto& [name, value] : rope.items()) {
    reader.Require(!value.is_object(), name, "one kind of rotary positions for all layers");
    // mrope_section and mrope_interleaved assign pairs to the axes of images: a token of text has
    // the same position on all of them.
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
                                            kShare,
                                            "mrope_section",
                                            "mrope_interleaved",
                                            kShortFactor,
                                            kLongFactor};
    // Models that were tuned under vLLM have it, such as DeepSeek-R1-0528-Qwen3-8B.
    reader.Require(name != "attn_factor", name,
                   "\"attention_factor\" in its place: transformers ignores this key, and vLLM "
                   "multiplies the attention factor by it; write the factor that is meant");
    const bool is_known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
    reader.Require(is_known || value.is_null(), name,
                   "no such key, since it is unknown here; remove it if it changes nothing");
  }
  // The object replaces a family's scaling.
  spec = RopeSpec{.theta = spec.theta, .rotated_share = spec.rotated_share};
  ReadShare(reader, keys, spec);
  spec.theta = NumberOr(reader, kTheta, spec.theta);
  const char* const key_of_type = reader.Has("rope_type") ? "rope_type" : "type";
  const std::string type = reader.Text("rope_type", reader.Text("type", "default"));
  const bool of_phi3 = keys == RopeKeys::kPhi3;
  const bool is_longrope =
      type == "longrope" || (of_phi3 && (type == "su" || type == "yarn"));  // older names
  if (is_longrope) {
    if (of_phi3 && original == 0) {
      reader.Require(!reader.Has(kOriginal) || reader.Size(kOriginal) == kPhi3Original, kOriginal,
                     absl::StrCat(kPhi3Original,
                                  ", which transformers uses if the key is not "
                                  "beside the object; put it there"));
      original = kPhi3Original;
    }
    ReadLongrope(rope, reader, max_positions, original, spec);
  } else if (of_phi3) {
    reader.Require(type == "default", key_of_type, "default or longrope");
  } else if (type == "linear") {
    spec.type = RopeSpec::Type::kLinear;
    spec.factor = reader.Number("factor");
  } else if (type == "llama3") {
    ReadLlama3(reader, original, spec);
  } else if (type == "yarn") {
    ReadYarn(reader, max_positions, original, spec);
  } else if (type == "dynamic") {
    reader.Require(false, key_of_type,
                   "default, linear, llama3, yarn or longrope: frequencies that change with every "
                   "token of a sequence would train another function at each length");
  } else {
    reader.Require(type == "default", key_of_type, "default, linear, llama3, yarn or longrope");
  }
  for (const char* factors : {kShortFactor, kLongFactor}) {
    reader.Require(is_longrope || !reader.Has(factors), factors,
                   absl::StrCat("no such key, since rope_type \"", type, "\" does not read it"));
  }
  reader.Require(spec.factor > 0, "factor", "a number above 0");
  return reader.status();
}

}  // namespace

bool IsRopeKey(absl::string_view key) {
  return key == kParameters || key == kScaling || key == kTheta || key == kOriginal ||
         key == kShare;
}

absl::StatusOr<RopeSpec> ReadRope(const nlohmann::json& config, const RopeSpec& base,
                                  int64_t max_positions, RopeKeys keys) {
  ConfigReader reader(config);
  RopeSpec spec = base;
  spec.theta = NumberOr(reader, kTheta, spec.theta);
  ReadShare(reader, keys, spec);
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
    ZEROTH_RETURN_IF_ERROR(ReadObject(config.at(key), key, max_positions, original, keys, spec));
  }
  reader.Require(spec.theta > 0, kTheta, "a number above 0");
  ZEROTH_RETURN_IF_ERROR(reader.status());
  return spec;
}

absl::Status CheckRope(const RopeSpec& spec, int64_t head_dim) {
  const int64_t rotary_dim = spec.rotary_dim(head_dim);
  if (rotary_dim % 2 != 0 || rotary_dim == 0) {
    return InvalidArgument("model configuration: '", kShare, "' rotates ", rotary_dim, " of the ",
                           head_dim, " elements of a head, expected an even number from 2 on");
  }
  if (spec.type != RopeSpec::Type::kLongrope) return absl::OkStatus();
  for (const auto& [key, factors] :
       {std::pair(kShortFactor, &spec.factors), std::pair(kLongFactor, &spec.long_factors)}) {
    if (static_cast<int64_t>(factors->size()) == rotary_dim / 2) continue;
    return InvalidArgument("model configuration: '", key, "' has ", factors->size(),
                           " numbers, expected ", rotary_dim / 2, ", half of the ", rotary_dim,
                           " elements of a head that are rotated");
  }
  return absl::OkStatus();
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
  for (const char* key : {kTheta, kLocalRopeTheta, kScaling, kParameters, kOriginal, kShare}) {
    if (reader.Has(key)) to[key] = from.at(key);
  }
  if (to.contains(kTheta) || (to.contains(kParameters) && to[kParameters].contains(kTheta))) return;
  to[kTheta] = spec.theta;
}

}  // namespace zeroth
