// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroth {

std::vector<float> Llama3RopeFactors(const Llama3Rope& rope, double theta, int64_t head_dim) {
  const auto original = static_cast<double>(rope.original_context);
  std::vector<float> factors;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
    const double turns = original / (2.0 * std::numbers::pi * std::pow(theta, exponent));
    double factor = 1.0;
    if (turns < rope.low_freq_factor) {
      factor = rope.factor;
    } else if (turns <= rope.high_freq_factor) {
      const double smooth =
          (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      factor = 1.0 / ((1.0 - smooth) / rope.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

absl::StatusOr<Llama3Rope> RecoverLlama3Rope(absl::Span<const float> factors, double theta) {
  // Writers compute in float32 or float64.
  constexpr double kTolerance = 1e-4;
  Llama3Rope rope;
  rope.factor = factors.empty() ? 1.0 : *std::max_element(factors.begin(), factors.end());
  const std::vector<float> expected =
      Llama3RopeFactors(rope, theta, 2 * static_cast<int64_t>(factors.size()));
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(std::abs(factors[i] / expected[i] - 1.0f) <= kTolerance)) {
      return absl::UnimplementedError(
          absl::StrCat("rotary factor ", i, " is ", factors[i], ", expected ", expected[i],
                       " as in the published Llama 3 models with factor ", rope.factor,
                       "; other scalings cannot be told from their factors"));
    }
  }
  return rope;
}

}  // namespace zeroth
