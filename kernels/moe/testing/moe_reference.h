// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Routing and grouped matmuls by their definitions, in float64. For tests only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroth::reference {

struct RouteShape {
  int64_t tokens = 0;
  int64_t experts = 0;
  int64_t top_k = 0;
  bool normalize = true;
};
struct Routed {
  std::vector<int32_t> experts;  // [tokens, top_k]
  std::vector<double> weights;   // [tokens, top_k]
  std::vector<int32_t> rows;     // [tokens, top_k]
  std::vector<int32_t> offsets;  // [experts + 1]
};
Routed Route(const RouteShape& shape, const std::vector<double>& logits);
// Returns the gradient of the logits, by the chain rule through all probabilities.
std::vector<double> RouteBackward(const RouteShape& shape, const std::vector<double>& logits,
                                  const std::vector<double>& dweights);

// c[i][j] = sum over k of a(i, k) * b(k, j).
template <typename A, typename B>
std::vector<double> Matmul(int64_t m, int64_t n, int64_t k, const A& a, const B& b) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) c[static_cast<size_t>(i * n + j)] += a(i, l) * b(l, j);
    }
  }
  return c;
}

}  // namespace zeroth::reference
