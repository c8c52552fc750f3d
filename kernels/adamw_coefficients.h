// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ADAMW_COEFFICIENTS_H_
#define ZEROTH_KERNELS_ADAMW_COEFFICIENTS_H_

#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/rounding.h"

namespace zeroth {

// An AdamW step's scalars as every implementation's loop uses them, each rounded to fp32 once:
//   g = grad * grad_scale
//   m = beta1 m + one_minus_beta1 g;  v = beta2 v + one_minus_beta2 g g
//   denominator = sqrt(v) * root_scale + eps;  param -= step * m / denominator + decay * param
// and the key of the step's stochastic rounding.
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
  RoundingKey rounding;
};
static_assert(sizeof(AdamWCoefficients) == kAdamWCoefficients * sizeof(float));
AdamWCoefficients DeriveAdamWCoefficients(const AdamWArgs& args);

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ADAMW_COEFFICIENTS_H_
