// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status Attention(Kernels& kernels, const AttentionArgs& args) {
  Operation op("Attention", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  SharedType type;
  CheckPacked(op, "qkv", args.qkv, shape, type);
  op.Rows("out", args.out, shape.batch * shape.seq, shape.heads * shape.head_dim, type);
  if (args.lse.defined())
    op.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(AttentionCall{shape, args.qkv.dtype(), args.qkv.raw_data(), args.out.raw_data(),
                              DataOrNull(args.lse)});
}

absl::Status AttentionBackward(Kernels& kernels, const AttentionBackwardArgs& args) {
  Operation op("AttentionBackward", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  SharedType type;
  const int64_t rows = shape.batch * shape.seq;
  op.Rows("dout", args.dout, rows, shape.heads * shape.head_dim, type);
  CheckPacked(op, "qkv", args.qkv, shape, type);
  op.Rows("out", args.out, rows, shape.heads * shape.head_dim, type);
  op.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  CheckPacked(op, "dqkv", args.dqkv, shape, type);
  if (!op.ok()) return op.status();
  return op.Run(AttentionBackwardCall{shape, args.qkv.dtype(), args.dout.raw_data(),
                                      args.qkv.raw_data(), args.out.raw_data(),
                                      args.lse.data<float>(), args.dqkv.raw_data()});
}

absl::StatusOr<std::string> DescribeAttention(Kernels& kernels, const AttentionShape& shape,
                                              DType dtype) {
  std::string words;
  const auto describe = KernelTable<DescribeAttentionCall>::Find(kernels);
  if (describe == nullptr) return words;
  const absl::Status status = describe(kernels, {shape, dtype, &words}, {});
  if (!status.ok()) return status;
  return words;
}

}  // namespace zeroth::kernels
