// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/muon/muon.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

const MuonCoefficients* CheckScalars(Operation& op, const MuonScalars& scalars) {
  if (!op.Count("coefficients", scalars.coefficients, kMuonCoefficients, DType::kFloat32)) {
    return nullptr;
  }
  if (scalars.grad_factor.defined()) {
    op.Count("grad_factor", scalars.grad_factor, 1, DType::kFloat32);
  }
  return static_cast<const MuonCoefficients*>(scalars.coefficients.raw_data());
}

// Checks that s is square. Returns its number of rows, or 0 if it is not.
int64_t CheckSquare(Operation& op, const Tensor& s, SharedType& type) {
  if (!op.MinRank("s", s, 2)) return 0;
  const int64_t n = s.dim(0);
  return op.Exactly("s", s, {n, n}, type) ? n : 0;
}

}  // namespace

absl::Status MuonMomentum(Kernels& kernels, const MuonScalars& scalars, const Tensor& grad,
                          const Tensor& m, const Tensor& u) {
  Operation op("MuonMomentum", kernels);
  const MuonCoefficients* const coefficients = CheckScalars(op, scalars);
  SharedType type;
  if (!op.Kind("grad", grad, type) || !op.Count("m", m, grad.numel(), DType::kFloat32)) {
    return op.status();
  }
  if (u.defined()) op.Count("u", u, grad.numel(), DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(MuonMomentumCall{grad.numel(), coefficients, DataOrNull(scalars.grad_factor),
                                 grad.dtype(), grad.raw_data(), m.data<float>(), DataOrNull(u)});
}

absl::Status MuonUpdate(Kernels& kernels, const MuonScalars& scalars, const Tensor& x,
                        const Tensor& param) {
  Operation op("MuonUpdate", kernels);
  const MuonCoefficients* const coefficients = CheckScalars(op, scalars);
  if (!op.Kind("x", x, DType::kFloat32) || !op.Count("param", param, x.numel(), DType::kFloat32)) {
    return op.status();
  }
  return op.Run(MuonUpdateCall{x.numel(), coefficients, DataOrNull(scalars.grad_factor),
                               x.data<float>(), param.data<float>()});
}

absl::Status MuonNormalise(Kernels& kernels, const Tensor& s, const Tensor& norm_squared) {
  Operation op("MuonNormalise", kernels);
  SharedType type;
  const int64_t n = CheckSquare(op, s, type);
  if (!op.Count("norm_squared", norm_squared, 1, DType::kFloat32)) return op.status();
  return op.Run(MuonNormaliseCall{n, s.dtype(), s.raw_data(), norm_squared.data<float>()});
}

absl::Status MuonPolynomial(Kernels& kernels, const MuonPolynomialArgs& args) {
  Operation op("MuonPolynomial", kernels);
  SharedType type;
  const int64_t n = CheckSquare(op, args.s, type);
  op.Exactly("s2", args.s2, args.s.shape(), type);
  if (args.norm_squared.defined()) {
    op.Count("norm_squared", args.norm_squared, 1, DType::kFloat32);
  }
  if (!op.ok()) return op.status();
  return op.Run(MuonPolynomialCall{n, args.s.dtype(), args.s.raw_data(), args.s2.raw_data(),
                                   DataOrNull(args.norm_squared), args.a, args.b, args.c});
}

absl::Status MuonMirror(Kernels& kernels, const Tensor& s) {
  Operation op("MuonMirror", kernels);
  SharedType type;
  const int64_t n = CheckSquare(op, s, type);
  if (!op.ok()) return op.status();
  return op.Run(MuonMirrorCall{n, s.dtype(), s.raw_data()});
}

}  // namespace zeroth::kernels
