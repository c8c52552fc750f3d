// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"

namespace zeroth {
namespace {

// As in every published Llama 3 model.
RopeSpec Llama3Rope(double theta) {
  return {.theta = theta, .type = RopeSpec::Type::kLlama3, .original_context = 8192};
}

}  // namespace

absl::StatusOr<HfRope> HfRopeOf(const HfConfig& config) {
  HfRope rope;
  const std::string type_of_model = config.ModelType().value_or("");
  const double usual = type_of_model == "mixtral"   ? 1e6
                       : type_of_model == "gpt_oss" ? 150000.0
                                                    : 1e4;
  ZEROTH_ASSIGN_OR_RETURN(rope.theta, config.GetDoubleOr("rope_theta", usual));
  const char* const share = "partial_rotary_factor";
  const double usual_share = type_of_model == "qwen3_5_text" ? 0.25 : 1.0;
  ZEROTH_ASSIGN_OR_RETURN(rope.rotated_share, config.GetDoubleOr(share, usual_share));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!config.Has(key)) continue;
    if (rope.where.empty()) rope.where = key;
    if (!IsSameRope(config.json().at(rope.where), config.json().at(key))) {
      return InvalidArgument(
          config.where(), ": keys \"", rope.where, "\" and \"", key,
          "\" say different things, expected the same; remove the one that is not meant");
    }
    ZEROTH_ASSIGN_OR_RETURN(rope.theta,
                            config.GetDoubleOr(absl::StrCat(key, ".rope_theta"), rope.theta));
    ZEROTH_ASSIGN_OR_RETURN(rope.rotated_share,
                            config.GetDoubleOr(absl::StrCat(key, ".", share), rope.rotated_share));
  }
  if (rope.where.empty()) return rope;
  ZEROTH_ASSIGN_OR_RETURN(const std::string type,
                          config.GetStringOr(absl::StrCat(rope.where, ".type"), "default"));
  ZEROTH_ASSIGN_OR_RETURN(rope.type,
                          config.GetStringOr(absl::StrCat(rope.where, ".rope_type"), type));
  return rope;
}

absl::StatusOr<std::optional<RopeSpec>> Llama3RopeOf(const HfConfig& config) {
  ZEROTH_ASSIGN_OR_RETURN(const HfRope config_rope, HfRopeOf(config));
  if (config_rope.type != "llama3") return std::nullopt;
  const auto key = [&](absl::string_view name) {
    return absl::StrCat(config_rope.where, ".", name);
  };
  RopeSpec rope = Llama3Rope(config_rope.theta);
  ZEROTH_ASSIGN_OR_RETURN(rope.factor, config.GetDouble(key("factor")));
  ZEROTH_ASSIGN_OR_RETURN(rope.low_freq_factor,
                          config.GetDoubleOr(key("low_freq_factor"), rope.low_freq_factor));
  ZEROTH_ASSIGN_OR_RETURN(rope.high_freq_factor,
                          config.GetDoubleOr(key("high_freq_factor"), rope.high_freq_factor));
  const char* const original = "original_max_position_embeddings";
  ZEROTH_ASSIGN_OR_RETURN(const int64_t beside, config.GetIntOr(original, 8192));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t context, config.GetIntOr(key(original), beside));
  if (config.Has(original) && context != beside) {
    return InvalidArgument(config.where(), ": key \"", key(original), "\" is ", context,
                           ", expected ", beside, ", as \"", original,
                           "\" beside the object says; remove the one that is wrong");
  }
  rope.original_context = static_cast<double>(context);
  if (!(rope.factor > 0 && rope.low_freq_factor > 0 &&
        rope.high_freq_factor > rope.low_freq_factor && rope.original_context > 0)) {
    return InvalidArgument(
        config.where(), ": key \"", config_rope.where,
        "\": expected factor > 0 and 0 < low_freq_factor < high_freq_factor, and a context");
  }
  return rope;
}

std::vector<float> Llama3RopeFactors(const RopeSpec& rope, int64_t head_dim) {
  RopeSpec plain;
  plain.theta = rope.theta;
  const std::vector<double> before = RopeFrequencies(plain, head_dim);
  const std::vector<double> after = RopeFrequencies(rope, head_dim);
  std::vector<float> factors;
  for (size_t i = 0; i < before.size(); ++i) {
    factors.push_back(static_cast<float>(before[i] / after[i]));
  }
  return factors;
}

absl::StatusOr<RopeSpec> RecoverLlama3Rope(absl::Span<const float> factors, double theta) {
  // Writers compute in float32 or float64.
  constexpr double kTolerance = 1e-4;
  RopeSpec rope = Llama3Rope(theta);
  rope.factor = factors.empty() ? 1.0 : *std::max_element(factors.begin(), factors.end());
  const std::vector<float> expected =
      Llama3RopeFactors(rope, 2 * static_cast<int64_t>(factors.size()));
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(std::abs(factors[i] / expected[i] - 1.0f) <= kTolerance)) {
      return Unimplemented("rotary factor ", i, " is ", factors[i], ", expected ", expected[i],
                           " as in the published Llama 3 models with factor ", rope.factor,
                           "; other scalings cannot be told from their factors");
    }
  }
  return rope;
}

}  // namespace zeroth
