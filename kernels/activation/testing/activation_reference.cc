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

namespace {

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

std::vector<double> SwiGlu(int64_t rows, int64_t hidden, const std::vector<double>& gate_up,
                           double limit) {
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < hidden; ++i) {
      const double gate = gate_up[2 * r * hidden + i];
      const double up = gate_up[(2 * r + 1) * hidden + i];
      if (limit > 0) {
        const double g = std::fmin(gate, limit);
        out.push_back(g * Sigmoid(1.702 * g) * (std::fmin(std::fmax(up, -limit), limit) + 1.0));
      } else {
        out.push_back(Silu(gate) * up);
      }
    }
  }
  return out;
}

std::vector<double> SwiGluBackward(int64_t rows, int64_t hidden, const std::vector<double>& gate_up,
                                   const std::vector<double>& dout, double limit) {
  std::vector<double> gradient(gate_up.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < hidden; ++i) {
      const int64_t gate = 2 * r * hidden + i;
      const int64_t up = gate + hidden;
      if (limit > 0) {
        const double g = std::fmin(gate_up[gate], limit);
        const double u = std::fmin(std::fmax(gate_up[up], -limit), limit);
        const double s = Sigmoid(1.702 * g);
        const double dy = dout[r * hidden + i];
        const double slope = s + 1.702 * g * s * Sigmoid(-1.702 * g);
        gradient[gate] = gate_up[gate] > limit ? 0.0 : dy * (u + 1.0) * slope;
        gradient[up] = std::abs(gate_up[up]) > limit ? 0.0 : dy * g * s;
        continue;
      }
      gradient[gate] = dout[r * hidden + i] * gate_up[up] * SiluDerivative(gate_up[gate]);
      gradient[up] = dout[r * hidden + i] * Silu(gate_up[gate]);
    }
  }
  return gradient;
}

}  // namespace zeroth::reference
