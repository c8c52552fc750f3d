// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/cached_attention.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status CachedAttention(Kernels& kernels, const CachedAttentionArgs& args) {
  Operation op("CachedAttention", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  op.Require(
      shape.batch == 1, "shape",
      absl::StrCat("has a batch of ", shape.batch, ", expected 1: a cache is one sequence's"));
  SharedType type;
  CheckPacked(op, "qkv", args.qkv, shape, type);
  op.MinRank("cache", args.cache, 2);
  if (!op.ok()) return op.status();
  const int64_t capacity = args.cache.dim(0);
  op.Rows("cache", args.cache, capacity, 2 * shape.kv_heads * shape.head_dim, type);
  op.Require(args.past >= 0 && args.past + shape.seq <= capacity, "past",
             absl::StrCat("is ", args.past, " before ", shape.seq, " new tokens, expected at most ",
                          capacity, " tokens together: what the cache holds"));
  op.Rows("out", args.out, shape.seq, shape.heads * shape.head_dim, type);
  if (!op.ok()) return op.status();
  AttentionShape useful = shape;
  // Removes a window that hides nothing, as Attention does.
  if (useful.window >= args.past + shape.seq) useful.window = 0;
  return op.Run(CachedAttentionCall{useful, args.qkv.dtype(), args.qkv.raw_data(),
                                    args.cache.raw_data(), args.past, args.out.raw_data()});
}

}  // namespace zeroth::kernels
