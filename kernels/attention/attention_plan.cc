// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention_plan.h"

#include <limits>

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Device code counts positions in ints, up to the end of the last tile.
constexpr int64_t kLongest = int64_t{1} << 30;
constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();

template <int kDim>
AttentionPlan MmaPlan(const AttentionShape& shape) {
  using Forward = MmaForwardTile<kDim>;
  using Backward = MmaBackwardTile<kDim>;
  static_assert(Forward::kSharedBytes <= kAttentionSharedLimit);
  static_assert(Backward::kSharedBytes <= kAttentionSharedLimit);
  const auto grid = [&](int rows, int64_t heads, size_t shared_bytes) {
    return Blocks(CeilDiv(shape.seq, rows) * shape.batch * heads, kMmaThreads, shared_bytes);
  };
  return {.path = AttentionPath::kMma,
          .width = kDim,
          .forward = grid(Forward::kRows, shape.heads, Forward::kSharedBytes),
          .backward_keys = grid(Backward::kRows, shape.kv_heads, Backward::kSharedBytes),
          .backward_queries = grid(Backward::kRows, shape.heads, Backward::kSharedBytes)};
}

AttentionPlan PlainPlan(const AttentionShape& shape) {
  static_assert(kPlainForwardBytes <= kAttentionSharedLimit);
  static_assert(kPlainBackwardBytes <= kAttentionSharedLimit);
  const auto grid = [&](int64_t heads, size_t shared_bytes) {
    LaunchShape blocks =
        Blocks(CeilDiv(shape.seq, kPlainTile) * shape.batch * heads, kPlainThreads, shared_bytes);
    blocks.grid.y = static_cast<unsigned>(CeilDiv(shape.head_dim, kPlainTile));
    return blocks;
  };
  return {.path = AttentionPath::kPlain,
          .forward = grid(shape.heads, kPlainForwardBytes),
          .backward_keys = grid(shape.kv_heads, kPlainBackwardBytes),
          .backward_queries = grid(shape.heads, kPlainBackwardBytes)};
}

}  // namespace

absl::StatusOr<AttentionPlan> PlanAttention(const AttentionShape& shape, DType dtype,
                                            bool aligned) {
  if (shape.seq > kLongest) {
    return InvalidArgument("attention: sequences of ", shape.seq, " tokens; at most ", kLongest,
                           " are possible on CUDA");
  }
  const int64_t tiles = CeilDiv(shape.seq, kPlainTile);  // of the smallest tile
  if (shape.batch > kMostBlocks / shape.heads / tiles) {
    return InvalidArgument(
        "attention: batch ", shape.batch, " x ", shape.heads, " heads x ", tiles,
        " tiles of the sequence are more blocks than a launch on CUDA can have (", kMostBlocks,
        "); use a smaller batch");
  }
  const bool half = dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  const bool plain = shape.cap > 0;  // the other kernels have no caps
  if (half && aligned && !plain && shape.head_dim % 8 == 0 && shape.head_dim <= 128) {
    if (shape.head_dim <= 64) return MmaPlan<64>(shape);
    return shape.head_dim <= 96 ? MmaPlan<96>(shape) : MmaPlan<128>(shape);
  }
  return PlainPlan(shape);
}

}  // namespace zeroth::cuda
