// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention_plan.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace zeroth::cuda {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Positions are ints in device code, including the end of the last tile.
constexpr int64_t kLongest = int64_t{1} << 30;
constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();

template <int kDim>
void UseMma(const AttentionShape& shape, AttentionPlan& plan) {
  using Forward = MmaForwardTile<kDim>;
  using Backward = MmaBackwardTile<kDim>;
  static_assert(Forward::kSharedBytes <= kAttentionSharedLimit);
  static_assert(Backward::kSharedBytes <= kAttentionSharedLimit);
  const auto blocks = [&](int rows, int64_t heads) {
    return static_cast<unsigned>(CeilDiv(shape.seq, rows) * shape.batch * heads);
  };
  plan.path = AttentionPath::kMma;
  plan.width = kDim;
  plan.forward = {dim3(blocks(Forward::kRows, shape.heads)), dim3(kMmaThreads),
                  Forward::kSharedBytes};
  plan.backward_keys = {dim3(blocks(Backward::kRows, shape.kv_heads)), dim3(kMmaThreads),
                        Backward::kSharedBytes};
  plan.backward_queries = {dim3(blocks(Backward::kRows, shape.heads)), dim3(kMmaThreads),
                           Backward::kSharedBytes};
}

template <int kWidth>
void UsePlain(const AttentionShape& shape, AttentionPlan& plan) {
  static_assert(kPlainForwardBytes<kWidth> <= kAttentionSharedLimit);
  static_assert(kPlainBackwardBytes<kWidth> <= kAttentionSharedLimit);
  const auto grid = [&](int64_t heads) {
    return dim3(static_cast<unsigned>(CeilDiv(shape.seq, kPlainTile) * shape.batch * heads),
                static_cast<unsigned>(CeilDiv(shape.head_dim, kWidth)));
  };
  plan.path = AttentionPath::kPlain;
  plan.width = kWidth;
  plan.forward = {grid(shape.heads), dim3(kPlainThreads), kPlainForwardBytes<kWidth>};
  plan.backward_keys = {grid(shape.kv_heads), dim3(kPlainThreads), kPlainBackwardBytes<kWidth>};
  plan.backward_queries = {grid(shape.heads), dim3(kPlainThreads), kPlainBackwardBytes<kWidth>};
}

}  // namespace

absl::Status PlanAttention(const AttentionShape& shape, DType dtype, bool aligned,
                           AttentionPlan& plan) {
  if (shape.seq > kLongest) {
    return absl::InvalidArgumentError(absl::StrCat("attention: sequences of ", shape.seq,
                                                   " tokens; at most ", kLongest,
                                                   " are possible on CUDA"));
  }
  const int64_t tiles = CeilDiv(shape.seq, kPlainTile);  // of the smallest tile
  if (shape.batch > kMostBlocks / shape.heads / tiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention: batch ", shape.batch, " x ", shape.heads, " heads x ", tiles,
                     " tiles of the sequence are more blocks than a launch on CUDA can have (",
                     kMostBlocks, "); use a smaller batch"));
  }
  const bool half = dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  if (half && aligned && shape.head_dim % 8 == 0 && shape.head_dim <= 128) {
    if (shape.head_dim <= 64) {
      UseMma<64>(shape, plan);
    } else if (shape.head_dim <= 96) {
      UseMma<96>(shape, plan);
    } else {
      UseMma<128>(shape, plan);
    }
  } else if (shape.head_dim <= 64) {
    UsePlain<64>(shape, plan);
  } else {
    UsePlain<128>(shape, plan);
  }
  return absl::OkStatus();
}

}  // namespace zeroth::cuda
