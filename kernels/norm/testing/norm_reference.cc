// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/norm/testing/norm_reference.h"

#include <cmath>

namespace zeroth::reference {
namespace {

Normalised Forward(bool centred, int64_t rows, int64_t dim, const std::vector<double>& x,
                   const std::vector<double>& gamma, const std::vector<double>& beta, double eps) {
  Normalised result;
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = x.data() + r * dim;
    double mean = 0.0;
    for (int64_t i = 0; centred && i < dim; ++i) mean += row[i] / static_cast<double>(dim);
    double variance = 0.0;
    for (int64_t i = 0; i < dim; ++i)
      variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(dim);
    const double rstd = 1.0 / std::sqrt(variance + eps);
    for (int64_t i = 0; i < dim; ++i)
      result.y.push_back((row[i] - mean) * rstd * gamma[i] + beta[i]);
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

// Computes gradients through the whole Jacobian of a row, d y_j / d x_i, rather than the simplified
// sums that kernels use.
NormGradients Backward(bool centred, int64_t rows, int64_t dim, const std::vector<double>& dy,
                       const std::vector<double>& x, const std::vector<double>& gamma, double eps) {
  const std::vector<double> zeros(static_cast<size_t>(dim));
  const Normalised forward = Forward(centred, rows, dim, x, gamma, zeros, eps);
  NormGradients gradients{std::vector<double>(x.size()), zeros, zeros};
  const double count = static_cast<double>(dim);
  const double through_mean = centred ? -1.0 / count : 0.0;
  for (int64_t r = 0; r < rows; ++r) {
    const double rstd = forward.rstd[r];
    std::vector<double> centre(x.begin() + r * dim, x.begin() + (r + 1) * dim);
    for (double& value : centre) value -= forward.mean[r];
    double* const dx = gradients.dx.data() + r * dim;
    for (int64_t j = 0; j < dim; ++j) {
      const double g = dy[r * dim + j];
      gradients.dgamma[j] += g * centre[j] * rstd;
      gradients.dbeta[j] += g;
      const double dy_j = g * gamma[j] * rstd;
      // d rstd / d x_i = -rstd^3 (x_i - mean) / dim
      const double through_scale = -centre[j] * rstd * rstd / count;
      dx[j] += dy_j;
      for (int64_t i = 0; i < dim; ++i) dx[i] += dy_j * (through_mean + through_scale * centre[i]);
    }
  }
  return gradients;
}

}  // namespace

Normalised LayerNorm(int64_t rows, int64_t dim, const std::vector<double>& x,
                     const std::vector<double>& gamma, const std::vector<double>& beta,
                     double eps) {
  return Forward(true, rows, dim, x, gamma, beta, eps);
}

Normalised RmsNorm(int64_t rows, int64_t dim, const std::vector<double>& x,
                   const std::vector<double>& gamma, double eps) {
  return Forward(false, rows, dim, x, gamma, std::vector<double>(static_cast<size_t>(dim)), eps);
}

NormGradients LayerNormBackward(int64_t rows, int64_t dim, const std::vector<double>& dy,
                                const std::vector<double>& x, const std::vector<double>& gamma,
                                double eps) {
  return Backward(true, rows, dim, dy, x, gamma, eps);
}

NormGradients RmsNormBackward(int64_t rows, int64_t dim, const std::vector<double>& dy,
                              const std::vector<double>& x, const std::vector<double>& gamma,
                              double eps) {
  return Backward(false, rows, dim, dy, x, gamma, eps);
}

}  // namespace zeroth::reference
