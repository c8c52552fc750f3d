// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GELU and SwiGLU by their definitions, in float64. For tests only.

#pragma once

#include <cstdint>
#include <vector>

namespace zeroth::reference {

double Gelu(double x);  // tanh form
double GeluDerivative(double x);

double Silu(double x);
double SiluDerivative(double x);

// Returns out [rows, hidden] of gate_up [rows, 2 * hidden]; kernels::SwiGlu explains `limit`.
std::vector<double> SwiGlu(int64_t rows, int64_t hidden, const std::vector<double>& gate_up,
                           double limit = 0);
std::vector<double> SwiGluBackward(int64_t rows, int64_t hidden, const std::vector<double>& gate_up,
                                   const std::vector<double>& dout, double limit = 0);

}  // namespace zeroth::reference
