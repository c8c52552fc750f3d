// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/activation/testing/activation_reference.h"

#include <cmath>

namespace zeroth::reference {
namespace {

const double kRootTwoOverPi = std::sqrt(2.0 / std::acos(-1.0));

// Returns (1 + tanh(u)) / 2 without the cancellation that a far negative u would bring.
double HalfOnePlusTanh(double u) { return 1.0 / (1.0 + std::exp(-2.0 * u)); }

double GeluArgument(double x) { return kRootTwoOverPi * (x + 0.044715 * x * x * x); }

}  // namespace

double Gelu(double x) { return x * HalfOnePlusTanh(GeluArgument(x)); }

double GeluDerivative(double x) {
  const double u = GeluArgument(x);
  const double du = kRootTwoOverPi * (1.0 + 3.0 * 0.044715 * x * x);
  // d/du of (1 + tanh(u)) / 2 is 1 / (2 cosh(u)^2).
  return HalfOnePlusTanh(u) + x * du * 2.0 * HalfOnePlusTanh(u) * HalfOnePlusTanh(-u);
}

double Silu(double x) { return x / (1.0 + std::exp(-x)); }

double SiluDerivative(double x) {
  const double s = 1.0 / (1.0 + std::exp(-x));
  return s + x * s / (1.0 + std::exp(x));
}

std::vector<double> SwiGlu(int64_t rows, int64_t hidden, const std::vector<double>& gate_up) {
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < hidden; ++i) {
      out.push_back(Silu(gate_up[2 * r * hidden + i]) * gate_up[(2 * r + 1) * hidden + i]);
    }
  }
  return out;
}

std::vector<double> SwiGluBackward(int64_t rows, int64_t hidden, const std::vector<double>& gate_up,
                                   const std::vector<double>& dout) {
  std::vector<double> gradient(gate_up.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < hidden; ++i) {
      const int64_t gate = 2 * r * hidden + i;
      const int64_t up = gate + hidden;
      gradient[gate] = dout[r * hidden + i] * gate_up[up] * SiluDerivative(gate_up[gate]);
      gradient[up] = dout[r * hidden + i] * Silu(gate_up[gate]);
    }
  }
  return gradient;
}

}  // namespace zeroth::reference
