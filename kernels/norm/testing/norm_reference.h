// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Layer norm and RMS norm by their definitions, in float64. For tests only.

#pragma once

#include <cstdint>
#include <vector>

namespace zeroth::reference {

struct Normalised {
  std::vector<double> y;     // [rows, dim]
  std::vector<double> mean;  // [rows]; zeros for RMS norm
  std::vector<double> rstd;  // [rows]
};

Normalised LayerNorm(int64_t rows, int64_t dim, const std::vector<double>& x,
                     const std::vector<double>& gamma, const std::vector<double>& beta, double eps);
Normalised RmsNorm(int64_t rows, int64_t dim, const std::vector<double>& x,
                   const std::vector<double>& gamma, double eps);

struct NormGradients {
  std::vector<double> dx;      // [rows, dim]
  std::vector<double> dgamma;  // [dim]
  std::vector<double> dbeta;   // [dim]
};

NormGradients LayerNormBackward(int64_t rows, int64_t dim, const std::vector<double>& dy,
                                const std::vector<double>& x, const std::vector<double>& gamma,
                                double eps);
NormGradients RmsNormBackward(int64_t rows, int64_t dim, const std::vector<double>& dy,
                              const std::vector<double>& x, const std::vector<double>& gamma,
                              double eps);

}  // namespace zeroth::reference
