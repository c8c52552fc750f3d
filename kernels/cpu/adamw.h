// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ADAMW_H_
#define ZEROTH_KERNELS_CPU_ADAMW_H_

#include <cstdint>

#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// The step's scalars as the loop uses them, each rounded to fp32 once:
//   denominator = sqrt(v) * root_scale + eps;  param -= step * m / denominator + decay * param
struct AdamWCoefficients {
  float grad_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float root_scale;
  float eps;
  float step;
  float decay;
};
AdamWCoefficients DeriveCoefficients(const AdamWArgs& args);

// One step in place over n elements in one pass, with the scalars of `args`; its tensors are not
// looked at.
void AdamW(int64_t n, const AdamWArgs& args, float* param, const float* grad, float* m, float* v);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ADAMW_H_
