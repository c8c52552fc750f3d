// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/moe/testing/moe_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace zeroth::reference {
namespace {

std::vector<double> Softmax(const double* logits, int64_t count) {
  std::vector<double> p(logits, logits + count);
  const double max = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - max);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

Routed Route(const RouteShape& shape, const std::vector<double>& logits) {
  Routed routed;
  for (int64_t t = 0; t < shape.tokens; ++t) {
    const std::vector<double> p = Softmax(logits.data() + t * shape.experts, shape.experts);
    std::vector<int32_t> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    // Compares logits, because probabilities of different logits may be equal, even in float64.
    const double* const row = logits.data() + t * shape.experts;
    std::stable_sort(order.begin(), order.end(),
                     [row](int32_t a, int32_t b) { return row[a] > row[b]; });
    double sum = 0;
    for (int64_t k = 0; k < shape.top_k; ++k) sum += p[order[k]];
    for (int64_t k = 0; k < shape.top_k; ++k) {
      routed.experts.push_back(order[k]);
      routed.weights.push_back(p[order[k]] / (shape.normalize ? sum : 1.0));
    }
  }
  routed.rows.resize(routed.experts.size());
  int32_t row = 0;
  for (int32_t e = 0; e < shape.experts; ++e) {
    routed.offsets.push_back(row);
    for (size_t pair = 0; pair < routed.experts.size(); ++pair) {
      if (routed.experts[pair] == e) routed.rows[pair] = row++;
    }
  }
  routed.offsets.push_back(row);
  return routed;
}

std::vector<double> RouteBackward(const RouteShape& shape, const std::vector<double>& logits,
                                  const std::vector<double>& dweights) {
  const Routed routed = Route(shape, logits);
  std::vector<double> dlogits(logits.size());
  for (int64_t t = 0; t < shape.tokens; ++t) {
    const std::vector<double> p = Softmax(logits.data() + t * shape.experts, shape.experts);
    std::vector<double> dp(p.size());
    double sum = 0;
    double weighted = 0;
    for (int64_t k = 0; k < shape.top_k; ++k) {
      const size_t pair = static_cast<size_t>(t * shape.top_k + k);
      sum += p[routed.experts[pair]];
      weighted += dweights[pair] * routed.weights[pair];
    }
    for (int64_t k = 0; k < shape.top_k; ++k) {
      const size_t pair = static_cast<size_t>(t * shape.top_k + k);
      // The quotient rule for p / sum.
      dp[routed.experts[pair]] =
          shape.normalize ? (dweights[pair] - weighted) / sum : dweights[pair];
    }
    double mean = 0;
    for (size_t e = 0; e < p.size(); ++e) mean += p[e] * dp[e];
    for (size_t e = 0; e < p.size(); ++e) {
      dlogits[static_cast<size_t>(t * shape.experts) + e] = p[e] * (dp[e] - mean);
    }
  }
  return dlogits;
}

}  // namespace zeroth::reference
