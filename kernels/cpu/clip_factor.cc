// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/clip_factor.h"

#include <cmath>
#include <limits>

#include "absl/types/span.h"

#include "zeroth/kernels/exact_sum.h"

namespace zeroth::cpu {

void ClipFactor(const int64_t* words, double scale, double max_norm, float* norm_and_factor) {
  constexpr double kEpsilon = 1e-6;  // torch's
  const double norm = std::sqrt(ExactSum::Decode(absl::MakeSpan(words, ExactSum::kWords))) * scale;
  double factor = 1.0;
  if (max_norm > 0) {
    const double ratio = max_norm / (norm + kEpsilon);
    if (ratio < 1.0) factor = ratio;
  }
  norm_and_factor[0] = static_cast<float>(norm);
  norm_and_factor[1] = std::isfinite(norm_and_factor[0]) ? static_cast<float>(factor)
                                                         : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace zeroth::cpu
