// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/norm/norm.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Checks the sums over whole rows, and the rows' width, if x holds only some columns. If all checks
// have passed, sets the fields that both directions share.
template <typename Args, typename Call>
bool FinishChecks(Operation& op, const Args& args, const Matrix& x, bool is_centred, Call& call) {
  if (args.sums.defined()) {
    op.Require(!is_centred, "sums", "are given to a norm with a mean");
    op.Count("sums", args.sums, x.rows, DType::kFloat32);
    op.Require(
        args.width >= x.cols, "width",
        absl::StrCat("is ", args.width, ", expected at least the ", x.cols, " columns of x"));
  }
  if (!op.ok()) return false;
  call.rows = x.rows;
  call.dim = x.cols;
  call.dtype = args.x.dtype();
  call.x = args.x.raw_data();
  call.gamma = args.gamma.raw_data();
  call.gamma_offset = args.gamma_offset;
  call.mean = DataOrNull(args.mean);
  call.rstd = DataOrNull(args.rstd);
  call.sums = DataOrNull(args.sums);
  call.width = args.sums.defined() ? args.width : x.cols;
  return true;
}

absl::Status Forward(Operation op, const LayerNormArgs& args, bool is_centred) {
  SharedType type;
  if (!op.Kind("x", args.x, type) || !op.MinRank("x", args.x, 1)) return op.status();
  const Matrix x(args.x);
  if (args.residual.defined()) {
    op.Rows("residual", args.residual, x.rows, x.cols, type);
    op.Rows("sum", args.sum, x.rows, x.cols, type);
  } else {
    op.Require(!args.sum.defined(), "sum", "is given without residual");
  }
  op.Exactly("gamma", args.gamma, {x.cols}, type);
  op.Rows("y", args.y, x.rows, x.cols, type);
  op.Count("rstd", args.rstd, x.rows, DType::kFloat32);
  if (is_centred) {
    op.Exactly("beta", args.beta, {x.cols}, type);
    op.Count("mean", args.mean, x.rows, DType::kFloat32);
  } else {
    op.Require(!args.beta.defined(), "beta", "is given to a norm without one");
    op.Require(!args.mean.defined(), "mean", "is given to a norm without one");
  }
  NormCall call;
  if (!FinishChecks(op, args, x, is_centred, call)) return op.status();
  call.residual = RawDataOrNull(args.residual);
  call.sum = RawDataOrNull(args.sum);
  call.beta = RawDataOrNull(args.beta);
  call.eps = args.eps;
  call.y = args.y.raw_data();
  return op.Run(call);
}

absl::Status Backward(Operation op, const LayerNormBackwardArgs& args, bool is_centred) {
  SharedType type;
  SharedType gradient;
  if (!op.Kind("x", args.x, type) || !op.MinRank("x", args.x, 1)) return op.status();
  const Matrix x(args.x);
  op.Rows("dy", args.dy, x.rows, x.cols, type);
  op.Exactly("gamma", args.gamma, {x.cols}, type);
  op.Count("rstd", args.rstd, x.rows, DType::kFloat32);
  op.Rows("dx", args.dx, x.rows, x.cols, type);
  if (args.dgamma.defined()) op.Exactly("dgamma", args.dgamma, {x.cols}, gradient);
  if (is_centred) {
    op.Count("mean", args.mean, x.rows, DType::kFloat32);
    if (args.dbeta.defined()) op.Exactly("dbeta", args.dbeta, {x.cols}, gradient);
  } else {
    op.Require(!args.mean.defined(), "mean", "is given to a norm without one");
    op.Require(!args.dbeta.defined(), "dbeta", "is given to a norm without beta");
  }
  NormBackwardCall call;
  if (!FinishChecks(op, args, x, is_centred, call)) return op.status();
  call.dy = args.dy.raw_data();
  call.dx = args.dx.raw_data();
  call.accumulate_dx = args.accumulate_dx;
  call.grad_dtype = gradient.dtype;
  call.dgamma = RawDataOrNull(args.dgamma);
  call.accumulate_dgamma = args.accumulate_dgamma;
  call.dbeta = RawDataOrNull(args.dbeta);
  call.accumulate_dbeta = args.accumulate_dbeta;
  return op.Run(call);
}

}  // namespace

absl::Status LayerNorm(Kernels& kernels, const LayerNormArgs& args) {
  return Forward({"LayerNorm", kernels}, args, /*is_centred=*/true);
}

absl::Status LayerNormBackward(Kernels& kernels, const LayerNormBackwardArgs& args) {
  return Backward({"LayerNormBackward", kernels}, args, /*is_centred=*/true);
}

absl::Status RmsNorm(Kernels& kernels, const RmsNormArgs& args) {
  return Forward({"RmsNorm", kernels}, args, /*is_centred=*/false);
}

absl::Status RmsNormBackward(Kernels& kernels, const RmsNormBackwardArgs& args) {
  return Backward({"RmsNormBackward", kernels}, args, /*is_centred=*/false);
}

absl::Status RmsSums(Kernels& kernels, const RmsSumsArgs& args) {
  Operation op("RmsSums", kernels);
  SharedType type;
  if (!op.Inside("x", args.x, type)) return op.status();
  const bool is_backward = args.dy.tensor.defined();
  if (is_backward) {
    op.Sized("dy", args.dy, args.x.rows, args.x.cols, type);
    op.Exactly("gamma", args.gamma, {args.x.cols}, type);
    op.Count("rstd", args.rstd, args.x.rows, DType::kFloat32);
  }
  if (!op.Count("sums", args.sums, args.x.rows, DType::kFloat32)) return op.status();
  RmsSumsCall call;
  call.rows = args.x.rows;
  call.cols = args.x.cols;
  call.dtype = type.dtype;
  call.x = args.x.raw_data();
  call.x_stride = args.x.stride;
  if (is_backward) {
    call.dy = args.dy.raw_data();
    call.dy_stride = args.dy.stride;
    call.gamma = args.gamma.raw_data();
    call.gamma_offset = args.gamma_offset;
    call.rstd = args.rstd.data<float>();
  }
  call.sums = args.sums.data<float>();
  return op.Run(call);
}

}  // namespace zeroth::kernels
