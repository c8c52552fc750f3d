// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_mma_tiles.h"

namespace zeroth::cuda {
namespace {

// The running state of a lane's rows. The softmax so far is 2^((score - max) * scale) / (the sum of
// `sum` over the row's four lanes).
template <int kRowTiles>
struct RowStates {
  float max[kRowTiles][2];
  float sum[kRowTiles][2];
};

// Hides keys that come after their query. `query` is the warp's first query, `key` the tile's first
// key.
template <int kRowTiles, int kTiles>
__device__ __forceinline__ void MaskLaterKeys(float (&scores)[kRowTiles][kTiles][4], int query,
                                              int key) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (key + AccumulatorColumn(n, i) > query + AccumulatorRow(m, i)) {
          scores[m][n][i] = -INFINITY;
        }
      }
    }
  }
}

// Hides keys that come before the first key that their query sees.
template <int kRowTiles, int kTiles>
__device__ __forceinline__ void MaskEarlierKeys(const HeadLayout& at, int64_t batch,
                                                float (&scores)[kRowTiles][kTiles][4], int query,
                                                int key) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = at.FirstKey(batch, query + AccumulatorRow(m, 2 * half));
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          if (key + AccumulatorColumn(n, i) < first) scores[m][n][i] = -INFINITY;
        }
      }
    }
  }
}

// Turns scores into weights relative to the new maximum, and rescales the sums that are relative to
// the old one. `scale` is the scale of scores times log2(e).
template <typename T, int kRowTiles, int kTiles, int kOutTiles>
__device__ __forceinline__ void OnlineSoftmax(float scale,
                                              const float (&scores)[kRowTiles][kTiles][4],
                                              uint32_t (&weights)[kRowTiles][kTiles][2],
                                              RowStates<kRowTiles>& rows,
                                              float (&out)[kRowTiles][kOutTiles][4]) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = rows.max[m][half];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        max = fmaxf(max, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
      // A row that has seen no key yet has no sums to rescale.
      const float below = max == -INFINITY ? 0.0f : max;
      const float shrink = FastExp2((rows.max[m][half] - below) * scale);
      const float offset = below * scale;
      rows.max[m][half] = max;
      float sum = rows.sum[m][half] * shrink;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float left = FastExp2(__fmaf_rn(scores[m][n][2 * half], scale, -offset));
        const float right = FastExp2(__fmaf_rn(scores[m][n][2 * half + 1], scale, -offset));
        weights[m][n][half] = PackPair<T>(left, right);
        sum += left + right;
      }
      rows.sum[m][half] = sum;
#pragma unroll
      for (int n = 0; n < kOutTiles; ++n) {
        out[m][n][2 * half] *= shrink;
        out[m][n][2 * half + 1] *= shrink;
      }
    }
  }
}

// kBounded: a window or documents hide keys. These instances lack registers to hold queries.
template <typename T, int kDim, bool kBounded>
__global__ void __launch_bounds__(kMmaThreads) MmaForward(AttentionForwardParams params) {
  using Tile = MmaForwardTile<kDim>;
  constexpr bool kHoldQueries = Tile::kHoldQueries && !kBounded;
  constexpr int kRowTiles = Tile::kRowTiles;
  constexpr int kKeys = Tile::kKeys;
  ZEROTH_DYNAMIC_SHARED(T, queries);
  T* const keys = queries + Tile::kRows * kMmaStride<kDim>;
  T* const values = keys + kKeys * kMmaStride<kDim>;

  const HeadLayout& at = params.at;
  const auto [first, query, head, batch] = RowsOfBlock<Tile>(at.seq, at.heads, /*last_first=*/true);
  const int warp_row = query - first;

  const T* const qkv = static_cast<const T*>(params.qkv);
  TileCopier<T, kDim>(qkv + at.Query(batch, head), at.packed)
      .template Begin<Tile::kRows>(first, queries, at.packed, at.seq, at.head_dim);
  const TileCopier<T, kDim> kv_head(qkv + at.Key(batch, head / at.group()), at.packed);
  const int values_beside = at.kv_heads * at.head_dim;  // from keys to values
  const int first_tile = kBounded ? at.FirstKey(batch, first) / kKeys * kKeys : 0;
  kv_head.template Begin<kKeys>(first_tile, keys, at.packed, at.seq, at.head_dim);
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  T* const own_queries = queries + warp_row * kMmaStride<kDim>;
  const RowOperand<T, kDim, kRowTiles, kHoldQueries> rows(own_queries);

  const float scale = at.scale * kLog2E;
  float out[kRowTiles][kDim / 8][4];
  SetZero(out);
  RowStates<kRowTiles> states;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      states.max[m][half] = -INFINITY;
      states.sum[m][half] = 0.0f;
    }
  }

  const int end =
      std::min(first + Tile::kRows, at.seq);  // end of the keys that the block's queries see
  for (int key = first_tile; key < end; key += kKeys) {
    // The keys have arrived, and no warp reads the previous tile's values any more.
    kv_head.template Begin<kKeys>(key, values, at.packed, at.seq, at.head_dim, values_beside);
    CommitCopies();
    bool sees_some = key < query + 16 * kRowTiles;
    if constexpr (kBounded) sees_some = sees_some && key + kKeys > at.FirstKey(batch, query);
    float scores[kRowTiles][kKeys / 8][4];
    if (sees_some) {
      ScoreMatmul<T, kDim, kKeys>(rows, keys, scores);
      if (key + kKeys > query + 1) MaskLaterKeys(scores, query, key);
      if constexpr (kBounded) {
        if (key < at.FirstKey(batch, query + 16 * kRowTiles - 1)) {
          MaskEarlierKeys(at, batch, scores, query, key);
        }
      }
    }
    WaitForCopies<0>();
    __syncthreads();  // the values have arrived, and no warp reads the keys any more
    if (key + kKeys < end) {
      kv_head.template Begin<kKeys>(key + kKeys, keys, at.packed, at.seq, at.head_dim);
      CommitCopies();
    }
    if (sees_some) {
      uint32_t weights[kRowTiles][kKeys / 8][2];
      OnlineSoftmax<T>(scale, scores, weights, states, out);
      AddWeighted<T, kDim, kKeys>(weights, values, out);
    }
    WaitForCopies<0>();
    __syncthreads();
  }

  float inverse[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = states.sum[m][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      inverse[m][half] = 1.0f / sum;
      const int row = query + AccumulatorRow(m, 2 * half);
      if (params.lse != nullptr && threadIdx.x % 4 == 0 && row < at.seq) {
        params.lse[at.Statistic(batch, head) + row] = states.max[m][half] * at.scale + logf(sum);
      }
    }
  }
  StoreRows<T, kDim>(out, inverse, own_queries, static_cast<T*>(params.out) + at.Out(batch, head),
                     at.out_token, query, at.seq, at.head_dim);
}

}  // namespace

absl::Status LaunchMmaForward(const AttentionPlan& plan, DType dtype,
                              const AttentionForwardParams& params, cudaStream_t stream) {
  return DispatchTiles(plan, dtype, [&]<typename T>(TypeTag<T>, auto width) {
    constexpr int kDim = width();
    return params.at.is_bounded()
               ? ZEROTH_LAUNCH((MmaForward<T, kDim, true>), plan.forward, stream, params)
               : ZEROTH_LAUNCH((MmaForward<T, kDim, false>), plan.forward, stream, params);
  });
}

}  // namespace zeroth::cuda
