// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw_coefficients.h"

#include <cmath>

namespace zeroth {

AdamWCoefficients DeriveAdamWCoefficients(const AdamWArgs& args) {
  const double root_scale = 1.0 / std::sqrt(args.correction2);
  const double eps = args.eps_mode == EpsMode::kBeforeCorrection ? args.eps * root_scale : args.eps;
  AdamWCoefficients c;
  c.grad_scale = static_cast<float>(args.grad_scale);
  c.beta1 = static_cast<float>(args.beta1);
  c.one_minus_beta1 = static_cast<float>(1.0 - args.beta1);
  c.beta2 = static_cast<float>(args.beta2);
  c.one_minus_beta2 = static_cast<float>(1.0 - args.beta2);
  c.root_scale = static_cast<float>(root_scale);
  c.eps = static_cast<float>(eps);
  c.step = static_cast<float>(args.lr / args.correction1);
  c.decay = static_cast<float>(args.lr * args.weight_decay);
  c.rounding = MakeRoundingKey(args.seed, args.step);
  return c;
}

}  // namespace zeroth
