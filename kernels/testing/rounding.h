// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The rounding error of stored values. Kernels compute in fp32 and round each result once.

#pragma once

#include <string>
#include <vector>

#include "zeroth/core/base/dtype.h"

namespace zeroth {

// Returns `values` rounded to `dtype`, so that a float64 reference sees what the kernel sees.
std::vector<float> RoundTo(DType dtype, std::vector<float> values);

// Returns half a unit in the last place of x: 2^-8 of the power of two below |x| for bf16, 2^-11
// for fp16, 2^-24 for fp32.
double HalfUlp(DType dtype, double x);

// Expects |actual - expected| <= relative * max|expected| + absolute for every element, plus the
// rounding of `expected` for 16-bit types; NaN fails. `what` names the values.
void ExpectCloseIn(DType dtype, const std::vector<float>& actual,
                   const std::vector<double>& expected, double relative, double absolute,
                   const std::string& what);

}  // namespace zeroth
