// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/delta_net/testing/delta_net_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace zeroth::reference {
namespace {

std::vector<double> Unit(const double* x, int64_t count) {
  double squares = 1e-6;
  for (int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  std::vector<double> unit(x, x + count);
  for (double& value : unit) value /= std::sqrt(squares);
  return unit;
}

}  // namespace

std::vector<double> ShortConvolution(int64_t batch, int64_t seq, int64_t channels, int64_t width,
                                     const std::vector<int32_t>& starts,
                                     const std::vector<double>& x,
                                     const std::vector<double>& weight) {
  std::vector<double> y(x.size());
  for (int64_t row = 0; row < batch * seq; ++row) {
    const int64_t start = starts.empty() ? 0 : starts[static_cast<size_t>(row)];
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) {
        const int64_t back = width - 1 - i;
        if (row % seq - back < start) continue;
        sum += weight[static_cast<size_t>(c * width + i)] *
               x[static_cast<size_t>((row - back) * channels + c)];
      }
      y[static_cast<size_t>(row * channels + c)] = sum / (1 + std::exp(-sum));
    }
  }
  return y;
}

std::vector<double> GatedDeltaRule(const DeltaNetShape& shape, const std::vector<int32_t>& starts,
                                   const DeltaRuleInputs& inputs, std::vector<double>* state) {
  const int64_t keys = shape.key_heads * shape.key_dim;
  std::vector<double> out;
  out.resize(static_cast<size_t>(shape.batch * shape.seq * shape.value_heads * shape.value_dim));
  for (int64_t task = 0; task < shape.batch * shape.value_heads; ++task) {
    const int64_t head = task % shape.value_heads;
    const int64_t key_head = head / (shape.value_heads / shape.key_heads);
    std::vector<double> local(static_cast<size_t>(shape.key_dim * shape.value_dim), 0.0);
    const auto size = static_cast<std::ptrdiff_t>(local.size());
    if (state != nullptr) std::copy_n(state->begin() + task * size, size, local.begin());
    for (int64_t t = 0; t < shape.seq; ++t) {
      const int64_t row = task / shape.value_heads * shape.seq + t;
      if (!starts.empty() && starts[static_cast<size_t>(row)] == t) {
        std::fill(local.begin(), local.end(), 0.0);
      }
      const double* const qkv = inputs.qkv.data() + row * shape.packed_dim();
      const double* const gates = inputs.gates.data() + row * 2 * shape.value_heads;
      const auto q = Unit(qkv + key_head * shape.key_dim, shape.key_dim);
      const auto k = Unit(qkv + keys + key_head * shape.key_dim, shape.key_dim);
      const double beta = 1 / (1 + std::exp(-gates[head]));
      const double a = gates[shape.value_heads + head] + inputs.dt_bias[static_cast<size_t>(head)];
      const double decay = std::exp(-std::exp(inputs.log_decay[static_cast<size_t>(head)]) *
                                    std::log1p(std::exp(a)));
      for (double& value : local) value *= decay;
      for (int64_t j = 0; j < shape.value_dim; ++j) {
        const auto at = [&](int64_t i) -> double& {
          return local[static_cast<size_t>(i * shape.value_dim + j)];
        };
        double remembered = 0;
        for (int64_t i = 0; i < shape.key_dim; ++i) remembered += k[static_cast<size_t>(i)] * at(i);
        const double v = qkv[2 * keys + head * shape.value_dim + j];
        double sum = 0;
        for (int64_t i = 0; i < shape.key_dim; ++i) {
          at(i) += k[static_cast<size_t>(i)] * beta * (v - remembered);
          sum += q[static_cast<size_t>(i)] * at(i);
        }
        out[static_cast<size_t>((row * shape.value_heads + head) * shape.value_dim + j)] =
            sum / std::sqrt(static_cast<double>(shape.key_dim));
      }
    }
    if (state != nullptr) std::copy_n(local.begin(), size, state->begin() + task * size);
  }
  return out;
}

}  // namespace zeroth::reference
