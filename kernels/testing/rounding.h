// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The rounding error of stored values: kernels compute in fp32 and round each result once.

#pragma once

#include <string>
#include <vector>

#include "zeroth/core/base/dtype.h"

namespace zeroth {

// `values` as fp32, bf16 or fp16 holds them, so that a float64 reference sees what the kernel sees.
std::vector<float> RoundTo(DType dtype, std::vector<float> values);

// Half a unit in the last place of x: 2^-8 of the power of two below |x| for bf16, 2^-11 for fp16,
// 2^-24 for fp32.
double HalfUlp(DType dtype, double x);

// Elementwise |actual - expected| <= relative * max|expected| + absolute, and for 16-bit types the
// rounding of `expected` on top; NaN fails. `what` names the values.
void ExpectCloseIn(DType dtype, const std::vector<float>& actual,
                   const std::vector<double>& expected, double relative, double absolute,
                   const std::string& what);

}  // namespace zeroth
