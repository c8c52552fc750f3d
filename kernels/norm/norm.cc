// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/norm/norm.h"

#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// What both norms have; layer norm adds beta and mean.
template <typename Args>
NormCall CheckNorm(Operation& op, const Args& args, SharedType& type) {
  NormCall call;
  if (!op.Kind("x", args.x, type) || !op.MinRank("x", args.x, 1)) return call;
  const Matrix x(args.x);
  if (args.residual.defined()) {
    op.Rows("residual", args.residual, x.rows, x.cols, type);
    op.Rows("sum", args.sum, x.rows, x.cols, type);
  } else {
    op.Require(!args.sum.defined(), "sum", "is given without residual");
  }
  op.Exactly("gamma", args.gamma, {x.cols}, type);
  op.Rows("y", args.y, x.rows, x.cols, type);
  if (!op.Count("rstd", args.rstd, x.rows, DType::kFloat32)) return call;
  call.rows = x.rows;
  call.dim = x.cols;
  call.dtype = args.x.dtype();
  call.x = args.x.raw_data();
  call.residual = RawDataOrNull(args.residual);
  call.sum = RawDataOrNull(args.sum);
  call.gamma = args.gamma.raw_data();
  call.eps = args.eps;
  call.y = args.y.raw_data();
  call.rstd = args.rstd.template data<float>();
  return call;
}

template <typename Args>
NormBackwardCall CheckNormBackward(Operation& op, const Args& args, SharedType& gradient) {
  NormBackwardCall call;
  SharedType type;
  if (!op.Kind("x", args.x, type) || !op.MinRank("x", args.x, 1)) return call;
  const Matrix x(args.x);
  op.Rows("dy", args.dy, x.rows, x.cols, type);
  op.Exactly("gamma", args.gamma, {x.cols}, type);
  op.Count("rstd", args.rstd, x.rows, DType::kFloat32);
  op.Rows("dx", args.dx, x.rows, x.cols, type);
  if (args.dgamma.defined()) op.Exactly("dgamma", args.dgamma, {x.cols}, gradient);
  if (!op.ok()) return call;
  call.rows = x.rows;
  call.dim = x.cols;
  call.dtype = args.x.dtype();
  call.dy = args.dy.raw_data();
  call.x = args.x.raw_data();
  call.gamma = args.gamma.raw_data();
  call.rstd = args.rstd.template data<float>();
  call.dx = args.dx.raw_data();
  call.accumulate_dx = args.accumulate_dx;
  call.grad_dtype = gradient.dtype;
  call.dgamma = RawDataOrNull(args.dgamma);
  call.accumulate_dgamma = args.accumulate_dgamma;
  return call;
}

}  // namespace

absl::Status LayerNorm(Kernels& kernels, const LayerNormArgs& args) {
  Operation op("LayerNorm", kernels);
  SharedType type;
  NormCall call = CheckNorm(op, args, type);
  if (op.ok() && op.Exactly("beta", args.beta, args.gamma.shape(), type) &&
      op.Count("mean", args.mean, args.rstd.numel(), DType::kFloat32)) {
    call.beta = args.beta.raw_data();
    call.mean = args.mean.data<float>();
  }
  return op.Run(call);
}

absl::Status LayerNormBackward(Kernels& kernels, const LayerNormBackwardArgs& args) {
  Operation op("LayerNormBackward", kernels);
  SharedType gradient;
  NormBackwardCall call = CheckNormBackward(op, args, gradient);
  if (!op.ok() || !op.Count("mean", args.mean, args.rstd.numel(), DType::kFloat32))
    return op.status();
  call.mean = args.mean.data<float>();
  if (args.dbeta.defined() && op.Exactly("dbeta", args.dbeta, args.gamma.shape(), gradient)) {
    call.grad_dtype = gradient.dtype;
    call.dbeta = args.dbeta.raw_data();
    call.accumulate_dbeta = args.accumulate_dbeta;
  }
  return op.Run(call);
}

absl::Status RmsNorm(Kernels& kernels, const RmsNormArgs& args) {
  Operation op("RmsNorm", kernels);
  SharedType type;
  const NormCall call = CheckNorm(op, args, type);
  return op.Run(call);
}

absl::Status RmsNormBackward(Kernels& kernels, const RmsNormBackwardArgs& args) {
  Operation op("RmsNormBackward", kernels);
  SharedType gradient;
  const NormBackwardCall call = CheckNormBackward(op, args, gradient);
  return op.Run(call);
}

}  // namespace zeroth::kernels
