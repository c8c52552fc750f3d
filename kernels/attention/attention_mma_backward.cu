// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For a tile of scores S = q k^T, with the probabilities P and dP = dout v^T:
//   dS = P (dP - delta);  dv += P^T dout;  dk += dS^T q scale;  dq += dS k scale
// The first kernel, for dk and dv, computes the transposes of S and dP, so that a warp's
// accumulators are the operands of its next matmul. The second kernel, for dq, computes S and dP
// themselves.

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_mma_tiles.h"

namespace zeroth::cuda {
namespace {

// A block's shared memory: the rows that it owns, and two stages of rows that it steps through.
template <typename T, int kDim>
struct BackwardShared {
  using Tile = MmaBackwardTile<kDim>;
  static constexpr int kRowElements = Tile::kRows * kMmaStride<kDim>;
  static constexpr int kStepElements = Tile::kSteps * kMmaStride<kDim>;

  __device__ __forceinline__ explicit BackwardShared(unsigned char* base)
      : rows(reinterpret_cast<T*>(base)),
        steps(rows + 2 * kRowElements),
        statistics(reinterpret_cast<float*>(steps + 2 * Tile::kStages * kStepElements)) {}

  // [2][kRows, kDim]: keys and values in the first kernel, queries and dout in the second.
  __device__ __forceinline__ T* Rows(int which) const { return rows + which * kRowElements; }
  // [kStages][2][kSteps, kDim]: queries and dout in the first kernel, keys and values in the
  // second.
  __device__ __forceinline__ T* Steps(int stage, int which) const {
    return steps + (2 * stage + which) * kStepElements;
  }
  // [kStages][2][kSteps]: lse and delta of each stage's queries.
  __device__ __forceinline__ float* Statistics(int stage, int which) const {
    return statistics + (2 * stage + which) * Tile::kSteps;
  }

  T* rows;
  T* steps;
  float* statistics;
};

// P and dS of one score. `scale` and `lse` include the factor log2(e).
struct Softened {
  float p;
  float ds;
};
__device__ __forceinline__ Softened SoftmaxBackward(float score, float gradient, float scale,
                                                    float lse, float delta, bool visible) {
  // A hidden score must have no effect even if it is not finite.
  if (!visible) return {0.0f, 0.0f};
  const float p = FastExp2(__fmaf_rn(score, scale, -lse));
  return {p, p * (gradient - delta)};
}

// Begins to copy queries from `first` on, with their dout, lse and delta. All of these are zero
// beyond the sequence, so that such queries contribute nothing.
template <typename T, int kDim>
__device__ __forceinline__ void BeginQueries(const AttentionBackwardParams& params, int64_t batch,
                                             int head, int first, int stage,
                                             const BackwardShared<T, kDim>& shared) {
  constexpr int kSteps = MmaBackwardTile<kDim>::kSteps;
  const HeadLayout& at = params.at;
  TileCopier<T, kDim>(static_cast<const T*>(params.qkv) + at.Query(batch, head), at.packed)
      .template Begin<kSteps>(first, shared.Steps(stage, 0), at.packed, at.seq, at.head_dim);
  TileCopier<T, kDim>(static_cast<const T*>(params.dout) + at.Out(batch, head), at.out_token)
      .template Begin<kSteps>(first, shared.Steps(stage, 1), at.out_token, at.seq, at.head_dim);
  static_assert(2 * kSteps <= kMmaThreads);
  const int i = static_cast<int>(threadIdx.x);
  if (i < 2 * kSteps) {
    const float* const from = (i < kSteps ? params.lse : params.delta) + at.Statistic(batch, head);
    const int row = first + i % kSteps;
    CopyAsync4(shared.Statistics(stage, 0) + i, from + row, row < at.seq);
  }
  CommitCopies();
}

// Computes dk and dv. A block owns kRows keys of one key head, and loops over the queries of its
// group, head after head.
template <typename T, int kDim>
__global__ void __launch_bounds__(kMmaThreads) MmaBackwardKeys(AttentionBackwardParams params) {
  using Tile = MmaBackwardTile<kDim>;
  constexpr int kRowTiles = Tile::kRowTiles;
  constexpr int kSteps = Tile::kSteps;
  static_assert(Tile::kRows % kSteps == 0 && Tile::kStages == 2);
  ZEROTH_DYNAMIC_SHARED(unsigned char, base);
  const BackwardShared<T, kDim> shared(base);

  const HeadLayout& at = params.at;
  const auto [first, key, kv_head, batch] =
      RowsOfBlock<Tile>(at.seq, at.kv_heads, /*last_first=*/false);
  const int warp_row = key - first;

  const T* const qkv = static_cast<const T*>(params.qkv);
  TileCopier<T, kDim>(qkv + at.Key(batch, kv_head), at.packed)
      .template Begin<Tile::kRows>(first, shared.Rows(0), at.packed, at.seq, at.head_dim);
  TileCopier<T, kDim>(qkv + at.Value(batch, kv_head), at.packed)
      .template Begin<Tile::kRows>(first, shared.Rows(1), at.packed, at.seq, at.head_dim);
  int head = kv_head * at.group();
  const int end_head = head + at.group();
  BeginQueries<T, kDim>(params, batch, head, first, 0, shared);

  T* const own_keys = shared.Rows(0) + warp_row * kMmaStride<kDim>;
  T* const own_values = shared.Rows(1) + warp_row * kMmaStride<kDim>;
  const RowOperand<T, kDim, kRowTiles, false> key_rows(own_keys);
  const RowOperand<T, kDim, kRowTiles, false> value_rows(own_values);
  const float scale = at.scale * kLog2E;
  float dk[kRowTiles][kDim / 8][4];
  float dv[kRowTiles][kDim / 8][4];
  SetZero(dk);
  SetZero(dv);
  int query = first;  // earlier ones see none of these keys
  const int end_query = at.EndOfQueries<kSteps>(batch, first, first + Tile::kRows);
  for (int stage = 0; head < end_head; stage ^= 1) {
    int next_head = head;
    int next_query = query + kSteps;
    if (next_query >= end_query) {
      ++next_head;
      next_query = first;
    }
    if (next_head < end_head) {
      BeginQueries<T, kDim>(params, batch, next_head, next_query, stage ^ 1, shared);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    if (key < query + kSteps && key + 16 * kRowTiles > at.FirstKey(batch, query)) {
      const bool hides_earlier = key < at.FirstKey(batch, query + kSteps - 1);
      const T* const queries = shared.Steps(stage, 0);
      const T* const dout = shared.Steps(stage, 1);
      float scores[kRowTiles][kSteps / 8][4];
      float gradients[kRowTiles][kSteps / 8][4];
      ScoreMatmul<T, kDim, kSteps>(key_rows, queries, scores);
      ScoreMatmul<T, kDim, kSteps>(value_rows, dout, gradients);
      uint32_t p[kRowTiles][kSteps / 8][2];
      uint32_t ds[kRowTiles][kSteps / 8][2];
#pragma unroll
      for (int n = 0; n < kSteps / 8; ++n) {
        const int column = AccumulatorColumn(n, 0);
        const float2 lse = *reinterpret_cast<const float2*>(shared.Statistics(stage, 0) + column);
        const float2 delta = *reinterpret_cast<const float2*>(shared.Statistics(stage, 1) + column);
        const int left_first = hides_earlier ? at.FirstKey(batch, query + column) : 0;
        const int right_first = hides_earlier ? at.FirstKey(batch, query + column + 1) : 0;
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = key + AccumulatorRow(m, 2 * half);
            const int ahead = query + column - row;
            const Softened left =
                SoftmaxBackward(scores[m][n][2 * half], gradients[m][n][2 * half], scale,
                                lse.x * kLog2E, delta.x, ahead >= 0 && row >= left_first);
            const Softened right =
                SoftmaxBackward(scores[m][n][2 * half + 1], gradients[m][n][2 * half + 1], scale,
                                lse.y * kLog2E, delta.y, ahead + 1 >= 0 && row >= right_first);
            p[m][n][half] = PackPair<T>(left.p, right.p);
            ds[m][n][half] = PackPair<T>(left.ds, right.ds);
          }
        }
      }
      AddWeighted<T, kDim, kSteps>(p, dout, dv);
      AddWeighted<T, kDim, kSteps>(ds, queries, dk);
    }
    __syncthreads();  // no warp reads this stage any more
    head = next_head;
    query = next_query;
  }

  float key_factor[kRowTiles][2];
  float value_factor[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      key_factor[m][half] = at.scale;
      value_factor[m][half] = 1.0f;
    }
  }
  T* const dqkv = static_cast<T*>(params.dqkv);
  StoreRows<T, kDim>(dk, key_factor, own_keys, dqkv + at.Key(batch, kv_head), at.packed, key,
                     at.seq, at.head_dim);
  StoreRows<T, kDim>(dv, value_factor, own_values, dqkv + at.Value(batch, kv_head), at.packed, key,
                     at.seq, at.head_dim);
}

// Begins to copy keys and values from `first` on.
template <typename T, int kDim>
__device__ __forceinline__ void BeginKeys(const HeadLayout& at, const TileCopier<T, kDim>& keys,
                                          const TileCopier<T, kDim>& values, int first, int stage,
                                          const BackwardShared<T, kDim>& shared) {
  constexpr int kSteps = MmaBackwardTile<kDim>::kSteps;
  keys.template Begin<kSteps>(first, shared.Steps(stage, 0), at.packed, at.seq, at.head_dim);
  values.template Begin<kSteps>(first, shared.Steps(stage, 1), at.packed, at.seq, at.head_dim);
  CommitCopies();
}

// Computes dq. A block owns kRows queries of one head, and loops over the keys that they see.
template <typename T, int kDim>
__global__ void __launch_bounds__(kMmaThreads) MmaBackwardQueries(AttentionBackwardParams params) {
  using Tile = MmaBackwardTile<kDim>;
  constexpr int kRowTiles = Tile::kRowTiles;
  constexpr int kSteps = Tile::kSteps;
  ZEROTH_DYNAMIC_SHARED(unsigned char, base);
  const BackwardShared<T, kDim> shared(base);

  const HeadLayout& at = params.at;
  const auto [first, query, head, batch] = RowsOfBlock<Tile>(at.seq, at.heads, /*last_first=*/true);
  const int warp_row = query - first;

  const T* const qkv = static_cast<const T*>(params.qkv);
  TileCopier<T, kDim>(qkv + at.Query(batch, head), at.packed)
      .template Begin<Tile::kRows>(first, shared.Rows(0), at.packed, at.seq, at.head_dim);
  TileCopier<T, kDim>(static_cast<const T*>(params.dout) + at.Out(batch, head), at.out_token)
      .template Begin<Tile::kRows>(first, shared.Rows(1), at.out_token, at.seq, at.head_dim);
  const TileCopier<T, kDim> next_keys(qkv + at.Key(batch, head / at.group()), at.packed);
  const TileCopier<T, kDim> next_values(qkv + at.Value(batch, head / at.group()), at.packed);
  const int first_tile = at.FirstKey(batch, first) / kSteps * kSteps;
  BeginKeys(at, next_keys, next_values, first_tile, 0, shared);

  const float scale = at.scale * kLog2E;
  float lse[kRowTiles][2];
  float delta[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query + AccumulatorRow(m, 2 * half);
      const int64_t statistic = at.Statistic(batch, head) + row;
      lse[m][half] = row < at.seq ? params.lse[statistic] * kLog2E : 0.0f;
      delta[m][half] = row < at.seq ? params.delta[statistic] : 0.0f;
    }
  }
  T* const own_queries = shared.Rows(0) + warp_row * kMmaStride<kDim>;
  const RowOperand<T, kDim, kRowTiles, false> query_rows(own_queries);
  const RowOperand<T, kDim, kRowTiles, false> dout_rows(shared.Rows(1) +
                                                        warp_row * kMmaStride<kDim>);
  float dq[kRowTiles][kDim / 8][4];
  SetZero(dq);
  const int end = std::min(first + Tile::kRows, at.seq);
  for (int key = first_tile, stage = 0; key < end; key += kSteps, stage ^= 1) {
    if (key + kSteps < end) {
      BeginKeys(at, next_keys, next_values, key + kSteps, stage ^ 1, shared);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    if (key < query + 16 * kRowTiles && key + kSteps > at.FirstKey(batch, query)) {
      const bool hides_earlier = key < at.FirstKey(batch, query + 16 * kRowTiles - 1);
      const T* const keys = shared.Steps(stage, 0);
      const T* const values = shared.Steps(stage, 1);
      float scores[kRowTiles][kSteps / 8][4];
      float gradients[kRowTiles][kSteps / 8][4];
      ScoreMatmul<T, kDim, kSteps>(query_rows, keys, scores);
      ScoreMatmul<T, kDim, kSteps>(dout_rows, values, gradients);
      uint32_t ds[kRowTiles][kSteps / 8][2];
#pragma unroll
      for (int n = 0; n < kSteps / 8; ++n) {
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = query + AccumulatorRow(m, 2 * half);
            const int column = key + AccumulatorColumn(n, 0);
            // The first key that the row sees; columns before it are hidden.
            const int row_first = hides_earlier ? at.FirstKey(batch, row) : 0;
            const Softened left =
                SoftmaxBackward(scores[m][n][2 * half], gradients[m][n][2 * half], scale,
                                lse[m][half], delta[m][half], column <= row && column >= row_first);
            const Softened right = SoftmaxBackward(
                scores[m][n][2 * half + 1], gradients[m][n][2 * half + 1], scale, lse[m][half],
                delta[m][half], column + 1 <= row && column + 1 >= row_first);
            ds[m][n][half] = PackPair<T>(left.ds, right.ds);
          }
        }
      }
      AddWeighted<T, kDim, kSteps>(ds, keys, dq);
    }
    __syncthreads();
  }

  float factor[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) factor[m][0] = factor[m][1] = at.scale;
  StoreRows<T, kDim>(dq, factor, own_queries, static_cast<T*>(params.dqkv) + at.Query(batch, head),
                     at.packed, query, at.seq, at.head_dim);
}

}  // namespace

absl::Status LaunchMmaBackward(const AttentionPlan& plan, DType dtype,
                               const AttentionBackwardParams& params, cudaStream_t stream) {
  return DispatchTiles(plan, dtype, [&]<typename T>(TypeTag<T>, auto width) -> absl::Status {
    constexpr int kDim = width();
    ZEROTH_RETURN_IF_ERROR(
        ZEROTH_LAUNCH((MmaBackwardKeys<T, kDim>), plan.backward_keys, stream, params));
    return ZEROTH_LAUNCH((MmaBackwardQueries<T, kDim>), plan.backward_queries, stream, params);
  });
}

}  // namespace zeroth::cuda
