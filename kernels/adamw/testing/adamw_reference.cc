// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/testing/adamw_reference.h"

#include <cmath>

namespace zeroth::reference {

AdamWElement AdamW(const AdamWArgs& args, AdamWElement element, double grad) {
  const double g = grad * args.grad_scale;
  element.m = args.beta1 * element.m + (1.0 - args.beta1) * g;
  element.v = args.beta2 * element.v + (1.0 - args.beta2) * g * g;
  const double denominator = args.eps_mode == EpsMode::kAfterCorrection
                                 ? std::sqrt(element.v / args.correction2) + args.eps
                                 : (std::sqrt(element.v) + args.eps) / std::sqrt(args.correction2);
  element.param -=
      args.lr * (element.m / args.correction1 / denominator + args.weight_decay * element.param);
  return element;
}

}  // namespace zeroth::reference
