// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/rope/testing/rope_reference.h"

#include <cmath>
#include <complex>

namespace zeroth::reference {

std::vector<double> Rope(const AttentionShape& shape, double theta, bool inverse,
                         std::vector<double> qkv) {
  const int64_t half = shape.head_dim / 2;
  for (int64_t row = 0; row < shape.batch * shape.seq; ++row) {
    const double position = static_cast<double>(row % shape.seq) * (inverse ? -1.0 : 1.0);
    for (int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      double* x = qkv.data() + row * shape.packed_dim() + head * shape.head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const double frequency =
            std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_dim));
        // A pair is a complex number; its rotation is one multiplication.
        const std::complex<double> rotated =
            std::complex<double>(x[i], x[half + i]) * std::polar(1.0, position * frequency);
        x[i] = rotated.real();
        x[half + i] = rotated.imag();
      }
    }
  }
  return qkv;
}

}  // namespace zeroth::reference
