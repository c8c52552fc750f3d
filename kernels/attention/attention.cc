// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth {
namespace {

// Removes a window that hides nothing, so that implementations without windows can compute the
// call.
AttentionShape WithoutIdleWindow(AttentionShape shape, int64_t past = 0) {
  if (shape.window >= past + shape.seq) shape.window = 0;
  return shape;
}

void CheckStarts(Operation& op, const Tensor& starts, const AttentionShape& shape) {
  if (starts.defined()) op.Exactly("starts", starts, {shape.batch, shape.seq}, DType::kInt32);
}

}  // namespace

bool CheckAttentionShape(Operation& op, const AttentionShape& shape) {
  const bool sizes = shape.batch >= 0 && shape.seq >= 0 && shape.heads >= 0 &&
                     shape.kv_heads >= 0 && shape.head_dim >= 0 && shape.window >= 0;
  if (!op.Require(sizes, "shape", "has a negative size")) return false;
  const bool scores =
      shape.scale >= 0 && std::isfinite(shape.scale) && shape.cap >= 0 && std::isfinite(shape.cap);
  if (!op.Require(scores, "shape",
                  absl::StrCat("has a score scale of ", shape.scale, " and a cap of ", shape.cap,
                               ", expected finite numbers of at least 0"))) {
    return false;
  }
  const bool divides = shape.kv_heads > 0 ? shape.heads % shape.kv_heads == 0 : shape.heads == 0;
  return divides || op.Require(false, "shape",
                               absl::StrCat("has ", shape.heads, " heads and ", shape.kv_heads,
                                            " kv_heads, expected a divisor of heads"));
}

std::vector<int32_t> DocumentStarts(absl::Span<const int32_t> ids, int64_t sequences) {
  const size_t seq = sequences == 0 ? 0 : ids.size() / static_cast<size_t>(sequences);
  std::vector<int32_t> starts(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t place = i % seq;
    const bool goes_on = place > 0 && ids[i] == ids[i - 1];
    starts[i] = goes_on ? starts[i - 1] : static_cast<int32_t>(place);
  }
  return starts;
}

namespace kernels {

absl::Status Attention(Kernels& kernels, const AttentionArgs& args) {
  Operation op("Attention", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  SharedType type;
  op.Rows("qkv", args.qkv, shape.batch * shape.seq, shape.packed_dim(), type);
  CheckStarts(op, args.starts, shape);
  op.Rows("out", args.out, shape.batch * shape.seq, shape.heads * shape.head_dim, type);
  if (args.lse.defined())
    op.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(AttentionCall{WithoutIdleWindow(shape), args.qkv.dtype(), args.qkv.raw_data(),
                              DataOrNull<int32_t>(args.starts), args.out.raw_data(),
                              DataOrNull(args.lse)});
}

absl::Status AttentionBackward(Kernels& kernels, const AttentionBackwardArgs& args) {
  Operation op("AttentionBackward", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  SharedType type;
  const int64_t rows = shape.batch * shape.seq;
  op.Rows("dout", args.dout, rows, shape.heads * shape.head_dim, type);
  op.Rows("qkv", args.qkv, shape.batch * shape.seq, shape.packed_dim(), type);
  CheckStarts(op, args.starts, shape);
  op.Rows("out", args.out, rows, shape.heads * shape.head_dim, type);
  op.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  op.Rows("dqkv", args.dqkv, rows, shape.packed_dim(), type);
  if (!op.ok()) return op.status();
  return op.Run(AttentionBackwardCall{WithoutIdleWindow(shape), args.qkv.dtype(),
                                      args.dout.raw_data(), args.qkv.raw_data(),
                                      DataOrNull<int32_t>(args.starts), args.out.raw_data(),
                                      args.lse.data<float>(), args.dqkv.raw_data()});
}

absl::Status CachedAttention(Kernels& kernels, const CachedAttentionArgs& args) {
  Operation op("CachedAttention", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  op.Require(
      shape.batch == 1, "shape",
      absl::StrCat("has a batch of ", shape.batch, ", expected 1: a cache is one sequence's"));
  SharedType type;
  op.Rows("qkv", args.qkv, shape.batch * shape.seq, shape.packed_dim(), type);
  op.MinRank("cache", args.cache, 2);
  if (!op.ok()) return op.status();
  const int64_t capacity = args.cache.dim(0);
  op.Rows("cache", args.cache, capacity, 2 * shape.kv_heads * shape.head_dim, type);
  op.Require(args.past >= 0 && args.past + shape.seq <= capacity, "past",
             absl::StrCat("is ", args.past, " before ", shape.seq, " new tokens, expected at most ",
                          capacity, " tokens together: what the cache holds"));
  op.Rows("out", args.out, shape.seq, shape.heads * shape.head_dim, type);
  if (args.lse.defined())
    op.Exactly("lse", args.lse, {shape.batch, shape.heads, shape.seq}, DType::kFloat32);
  if (!op.ok()) return op.status();
  return op.Run(CachedAttentionCall{WithoutIdleWindow(shape, args.past), args.qkv.dtype(),
                                    args.qkv.raw_data(), args.cache.raw_data(), args.past,
                                    args.out.raw_data(), DataOrNull(args.lse)});
}

absl::StatusOr<std::string> DescribeAttention(Kernels& kernels, const AttentionShape& shape,
                                              DType dtype, bool packed_documents) {
  std::string words;
  const auto describe = KernelTable<DescribeAttentionCall>::Find(kernels);
  if (describe == nullptr) return words;
  const absl::Status status =
      describe(kernels, {WithoutIdleWindow(shape), dtype, packed_documents, &words}, {});
  if (!status.ok()) return status;
  return words;
}

}  // namespace kernels
}  // namespace zeroth
