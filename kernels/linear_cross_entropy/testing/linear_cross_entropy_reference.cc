// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/linear_cross_entropy/testing/linear_cross_entropy_reference.h"

#include <algorithm>
#include <cmath>

namespace zeroth::reference {

LinearCrossEntropyOutput LinearCrossEntropy(int64_t dim, int64_t vocab,
                                            const std::vector<double>& hidden,
                                            const std::vector<double>& weight,
                                            const std::vector<int32_t>& targets, double cap) {
  const auto counts = [](int32_t target) { return target != -100; };
  const double counted = static_cast<double>(std::count_if(targets.begin(), targets.end(), counts));
  LinearCrossEntropyOutput result;
  result.dhidden.resize(hidden.size());
  result.dweight.resize(weight.size());
  std::vector<double> p(static_cast<size_t>(vocab));
  std::vector<double> slope(static_cast<size_t>(vocab));
  for (size_t row = 0; row < targets.size(); ++row) {
    if (!counts(targets[row])) continue;
    const double* h = hidden.data() + row * static_cast<size_t>(dim);
    for (int64_t v = 0; v < vocab; ++v) {
      p[v] = 0.0;
      for (int64_t i = 0; i < dim; ++i) p[v] += h[i] * weight[v * dim + i];
      const double cosh = cap > 0 ? std::cosh(p[v] / cap) : 1.0;
      slope[v] = 1.0 / (cosh * cosh);
      if (cap > 0) p[v] = cap * std::tanh(p[v] / cap);
    }
    const double max = *std::max_element(p.begin(), p.end());
    const double logit = p[targets[row]] - max;
    double sum = 0.0;
    for (double& x : p) sum += x = std::exp(x - max);
    result.loss += (std::log(sum) - logit) / counted;
    for (int64_t v = 0; v < vocab; ++v) {
      const double dlogit = (p[v] / sum - (v == targets[row] ? 1.0 : 0.0)) * slope[v] / counted;
      for (int64_t i = 0; i < dim; ++i) {
        result.dhidden[row * static_cast<size_t>(dim) + i] += dlogit * weight[v * dim + i];
        result.dweight[v * dim + i] += dlogit * h[i];
      }
    }
  }
  return result;
}

}  // namespace zeroth::reference
