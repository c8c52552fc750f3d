// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/sinks.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Checks the fields that both operations share, and sets those of the call.
bool CheckRows(Operation& op, const Tensor& sinks, const Tensor& out, const Tensor& lse,
               SharedType& type, SinkRowsCall& call) {
  if (!op.MinRank("lse", lse, 3) || !op.MinRank("out", out, 2)) return false;
  call.batch = lse.dim(0);
  call.heads = lse.dim(1);
  call.seq = lse.dim(2);
  op.Exactly("lse", lse, {call.batch, call.heads, call.seq}, DType::kFloat32);
  const int64_t width = out.dim(-1);
  if (!op.Require(call.heads > 0 ? width % call.heads == 0 : width == 0, "out",
                  absl::StrCat("has ", width, " columns, expected a multiple of ", call.heads,
                               " heads, as of lse"))) {
    return false;
  }
  call.head_dim = call.heads == 0 ? 0 : width / call.heads;
  op.Rows("out", out, call.batch * call.seq, width, type);
  if (!op.Exactly("sinks", sinks, {call.heads}, type)) return false;
  call.dtype = type.dtype;
  call.sinks = sinks.raw_data();
  return true;
}

}  // namespace

absl::Status AttentionSinks(Kernels& kernels, const AttentionSinksArgs& args) {
  Operation op("AttentionSinks", kernels);
  SharedType type;
  AttentionSinksCall call;
  if (!CheckRows(op, args.sinks, args.out, args.lse, type, call)) return op.status();
  call.out = args.out.raw_data();
  call.lse = args.lse.data<float>();
  return op.Run(call);
}

absl::Status SinkGradient(Kernels& kernels, const SinkGradientArgs& args) {
  Operation op("SinkGradient", kernels);
  SharedType type;
  SinkGradientCall call;
  if (!CheckRows(op, args.sinks, args.out, args.lse, type, call)) return op.status();
  op.Rows("dout", args.dout, call.batch * call.seq, call.heads * call.head_dim, type);
  op.Rows("gradient", args.gradient, call.batch * call.seq, call.heads, DType::kFloat32);
  if (!op.ok()) return op.status();
  call.dout = args.dout.raw_data();
  call.out = args.out.raw_data();
  call.lse = args.lse.data<float>();
  call.gradient = args.gradient.data<float>();
  return op.Run(call);
}

}  // namespace zeroth::kernels
