// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_CLIP_FACTOR_H_
#define ZEROTH_KERNELS_CPU_CLIP_FACTOR_H_

#include <cstdint>

namespace zeroth::cpu {

// norm_and_factor[0, 2) = {norm, factor} from words[0, ExactSum::kWords), as Kernels::ClipFactor
// says.
void ClipFactor(const int64_t* words, double scale, double max_norm, float* norm_and_factor);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_CLIP_FACTOR_H_
