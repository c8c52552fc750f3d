// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Matmuls by their definition, in float64. For tests only.

#pragma once

#include <cstdint>
#include <vector>

#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::reference {

// Returns op(a) op(b), [m, n]. a is [m, k], or [k, m] if transpose_a; b is [k, n], or [n, k] if
// transpose_b.
std::vector<double> Gemm(int64_t m, int64_t n, int64_t k, const std::vector<double>& a,
                         bool transpose_a, const std::vector<double>& b, bool transpose_b);

// Returns activation(x); GELU in its tanh form.
double Activate(Activation activation, double x);

}  // namespace zeroth::reference
