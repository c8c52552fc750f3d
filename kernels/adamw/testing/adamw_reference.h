// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// AdamW by its definition, in float64, one element at a time. For tests only.

#pragma once

#include "zeroth/kernels/adamw/adamw.h"

namespace zeroth::reference {

struct AdamWElement {
  double param = 0;
  double m = 0;
  double v = 0;
};

// Returns the element after one step with `grad` and the scalars of `args`.
AdamWElement AdamW(const AdamWArgs& args, AdamWElement element, double grad);

}  // namespace zeroth::reference
