// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/rope/rope.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status Rope(Kernels& kernels, const RopeArgs& args) {
  Operation op("Rope", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  op.Require(shape.head_dim % 2 == 0, "shape",
             absl::StrCat("has head_dim ", shape.head_dim, ", expected an even one"));
  op.Require(args.theta > 0 && std::isfinite(args.theta), "theta",
             absl::StrCat("is ", args.theta, ", expected a positive number"));
  SharedType type;
  if (!CheckPacked(op, "qkv", args.qkv, shape, type)) return op.status();
  return op.Run(RopeCall{shape.batch, shape.seq, shape.heads + shape.kv_heads, shape.head_dim,
                         shape.packed_dim(), args.qkv.dtype(), args.qkv.raw_data(), args.theta,
                         args.inverse});
}

}  // namespace zeroth::kernels
