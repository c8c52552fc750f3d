// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention in fp32 arithmetic for every shape and type. A block owns 64 rows and kWidth columns of
// a result. If heads are wider than kWidth, several blocks compute the same scores, each for its
// own columns.

#include <algorithm>
#include <cmath>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_plain_tiles.h"
#include "zeroth/kernels/cuda/dispatch.h"

namespace zeroth::cuda {
namespace {

// The rows and the head that a block owns. The tiles of a head are neighbours.
struct PlainBlock {
  __device__ __forceinline__ PlainBlock(int seq, int heads, int width)
      : tiles((seq + kPlainTile - 1) / kPlainTile),
        tile(static_cast<int>(blockIdx.x % tiles)),
        head(static_cast<int>(blockIdx.x / tiles % heads)),
        batch(blockIdx.x / tiles / heads),
        column(static_cast<int>(blockIdx.y) * width) {}

  int tiles;
  int tile;
  int head;
  int64_t batch;
  int column;
};

// An operand of the scores: rows of a head from `first` on, `stride` elements apart.
template <typename T>
struct Operand {
  const T* head;
  int64_t stride;
  int first;
};

// scores = a b^T over all of head_dim. Both tiles must be free to overwrite on entry, and are on
// return.
template <int kWidth, typename T>
__device__ __forceinline__ void ComputeScores(const HeadLayout& at, const Operand<T>& a,
                                              const Operand<T>& b, float* a_tile, float* b_tile,
                                              float (&scores)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int c = 0; c < 4; ++c) scores[r][c] = 0.0f;
  }
  for (int column = 0; column < at.head_dim; column += kWidth) {
    LoadPlainTile<kWidth>(at, a_tile, a.head, a.stride, a.first, column);
    LoadPlainTile<kWidth>(at, b_tile, b.head, b.stride, b.first, column);
    __syncthreads();
    AddScores<kWidth>(a_tile, b_tile, UsedWidth<kWidth>(column, at.head_dim), scores);
    __syncthreads();
  }
}

// Return the maximum and the sum over the 16 threads of a row, in a fixed order.
__device__ __forceinline__ float RowMax(float x) {
#pragma unroll
  for (int mask = 8; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, mask));
  return x;
}
__device__ __forceinline__ float RowSum(float x) {
#pragma unroll
  for (int mask = 8; mask > 0; mask /= 2) x += __shfl_xor_sync(0xffffffffu, x, mask);
  return x;
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kPlainThreads, 2) PlainForward(AttentionForwardParams params) {
  ZEROTH_DYNAMIC_SHARED(float, query_tile);
  float* const key_tile = query_tile + kPlainTile * kPlainStride<kWidth>;
  float* const weights = key_tile + kPlainTile * kPlainStride<kWidth>;

  const HeadLayout& at = params.at;
  const PlainBlock block(at.seq, at.heads, kWidth);
  const int first = (block.tiles - 1 - block.tile) * kPlainTile;  // the longest begin first
  const int kv_head = block.head / at.group();
  const T* const qkv = static_cast<const T*>(params.qkv);
  const T* const value_head = qkv + at.Value(block.batch, kv_head);
  const Operand<T> queries = {qkv + at.Query(block.batch, block.head), at.packed, first};

  PlainSums<kWidth> out = {};
  float max[4];
  float sum[4] = {};  // of this thread's columns
  int first_key[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    max[r] = -INFINITY;
    first_key[r] = at.FirstKey(block.batch, first + ScoreRow(r));
  }
  const int first_tile = at.FirstKey(block.batch, first) / kPlainTile * kPlainTile;
  for (int key = first_tile; key < std::min(first + kPlainTile, at.seq); key += kPlainTile) {
    const Operand<T> keys = {qkv + at.Key(block.batch, kv_head), at.packed, key};
    float scores[4][4];
    ComputeScores<kWidth>(at, queries, keys, query_tile, key_tile, scores);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float before = max[r];
      float largest = before;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int column = key + ScoreColumn(c);
        const bool visible = column <= first + ScoreRow(r) && column >= first_key[r];
        scores[r][c] = visible ? scores[r][c] * at.scale : -INFINITY;
        largest = fmaxf(largest, scores[r][c]);
      }
      largest = RowMax(largest);
      max[r] = largest == -INFINITY ? max[r] : largest;
      // A row that has seen no key yet has no sums to rescale.
      if (largest == -INFINITY) largest = 0.0f;
      const float shrink = expf(before - largest);
      sum[r] *= shrink;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float weight = expf(scores[r][c] - largest);
        sum[r] += weight;
        weights[ScoreRow(r) * kPlainScoreStride + ScoreColumn(c)] = weight;
      }
#pragma unroll
      for (int pack = 0; pack < kWidth / 64; ++pack) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[r][pack][i] *= shrink;
      }
    }
    LoadPlainTile<kWidth>(at, key_tile, value_head, at.packed, key, block.column);
    __syncthreads();
    AddRowsWeighted<kWidth, kPlainScoreStride>(weights, key_tile, out);
    __syncthreads();
  }

  T* const out_head = static_cast<T*>(params.out) + at.Out(block.batch, block.head);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float total = RowSum(sum[r]);
    const int place = first + ScoreRow(r);
    StorePlainRow<kWidth>(out[r], 1.0f / total, out_head, at.out_token, place, at.seq, block.column,
                          at.head_dim);
    if (params.lse != nullptr && block.column == 0 && ThreadX() == 0 && place < at.seq) {
      params.lse[at.Statistic(block.batch, block.head) + place] = max[r] + logf(total);
    }
  }
}

// A head's row is short, and rows are contiguous. With eight lanes for each row, a warp's accesses
// are contiguous, too.
constexpr int kLanesPerRow = 8;

template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads)
    AttentionDelta(HeadLayout at, int64_t rows, const T* dout, const T* out, float* delta) {
  const int64_t thread = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  const int64_t row = thread / kLanesPerRow;
  float sum = 0.0f;
  if (row < rows) {
    const int64_t begin = row * at.head_dim;
    for (int i = static_cast<int>(thread % kLanesPerRow) * N; i < at.head_dim;
         i += kLanesPerRow * N) {
      float a[N];
      float b[N];
      LoadPack<N>(dout + begin + i, a);
      LoadPack<N>(out + begin + i, b);
#pragma unroll
      for (int j = 0; j < N; ++j) sum = __fmaf_rn(a[j], b[j], sum);
    }
  }
#pragma unroll
  for (int mask = kLanesPerRow / 2; mask > 0; mask /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  }
  if (row >= rows || thread % kLanesPerRow != 0) return;
  const int64_t token = row / at.heads;
  const int head = static_cast<int>(row % at.heads);
  delta[at.Statistic(token / at.seq, head) + token % at.seq] = sum;
}

// The number of blocks of the backward kernels that fit on an SM, in shared memory and registers.
// One for kernels with windows and documents (kBounded).
template <int kWidth>
constexpr int kPlainBackwardBlocks = kWidth <= 64 ? 2 : 1;

// Computes P and dS for the tile of queries from `query` on and keys from `key` on, of one head. On
// return the tiles may be overwritten, and the results are visible to this thread only.
template <int kWidth, bool kBounded, typename T>
__device__ __forceinline__ void ComputeGradients(const AttentionBackwardParams& params,
                                                 int64_t batch, int head, int query, int key,
                                                 float* a_tile, float* b_tile, float* p,
                                                 float* ds) {
  const HeadLayout& at = params.at;
  const T* const qkv = static_cast<const T*>(params.qkv);
  const int kv_head = head / at.group();
  float scores[4][4];
  float gradients[4][4];
  ComputeScores<kWidth>(at, Operand<T>{qkv + at.Query(batch, head), at.packed, query},
                        Operand<T>{qkv + at.Key(batch, kv_head), at.packed, key}, a_tile, b_tile,
                        scores);
  ComputeScores<kWidth>(
      at, Operand<T>{static_cast<const T*>(params.dout) + at.Out(batch, head), at.out_token, query},
      Operand<T>{qkv + at.Value(batch, kv_head), at.packed, key}, a_tile, b_tile, gradients);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int place = query + ScoreRow(r);
    const int64_t statistic = at.Statistic(batch, head) + std::min(place, at.seq - 1);
    const float lse = params.lse[statistic];
    const float delta = params.delta[statistic];
    const int first_key = kBounded ? at.FirstKey(batch, place) : 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = key + ScoreColumn(c);
      // Keys beyond the sequence come after every query of it.
      const bool visible = place < at.seq && column <= place && column >= first_key;
      const float weight = visible ? expf(scores[r][c] * at.scale - lse) : 0.0f;
      const int element = ScoreRow(r) * kPlainTile + ScoreColumn(c);
      if (p != nullptr) p[element] = weight;
      ds[element] = visible ? weight * (gradients[r][c] - delta) : 0.0f;
    }
  }
}

// Computes dk and dv of 64 keys of a key head. Loops over the queries of its group, head after
// head.
template <typename T, int kWidth, bool kBounded>
__global__ void __launch_bounds__(kPlainThreads, kBounded ? 1 : kPlainBackwardBlocks<kWidth>)
    PlainBackwardKeys(AttentionBackwardParams params) {
  ZEROTH_DYNAMIC_SHARED(float, a_tile);
  float* const b_tile = a_tile + kPlainTile * kPlainStride<kWidth>;
  float* const p = b_tile + kPlainTile * kPlainStride<kWidth>;
  float* const ds = p + kPlainTile * kPlainTile;

  const HeadLayout& at = params.at;
  const PlainBlock block(at.seq, at.kv_heads, kWidth);
  const int key = block.tile * kPlainTile;
  const T* const qkv = static_cast<const T*>(params.qkv);
  const T* const dout = static_cast<const T*>(params.dout);
  PlainSums<kWidth> dk = {};
  PlainSums<kWidth> dv = {};
  const int end =
      kBounded ? at.EndOfQueries<kPlainTile>(block.batch, key, key + kPlainTile) : at.seq;
  for (int head = block.head * at.group(); head < (block.head + 1) * at.group(); ++head) {
    for (int query = key; query < end; query += kPlainTile) {
      ComputeGradients<kWidth, kBounded, T>(params, block.batch, head, query, key, a_tile, b_tile,
                                            p, ds);
      LoadPlainTile<kWidth>(at, a_tile, dout + at.Out(block.batch, head), at.out_token, query,
                            block.column);
      LoadPlainTile<kWidth>(at, b_tile, qkv + at.Query(block.batch, head), at.packed, query,
                            block.column);
      __syncthreads();
      AddColumnsWeighted<kWidth>(p, a_tile, dv);
      AddColumnsWeighted<kWidth>(ds, b_tile, dk);
      __syncthreads();
    }
  }
  T* const dqkv = static_cast<T*>(params.dqkv);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int place = key + 4 * ThreadY() + r;
    StorePlainRow<kWidth>(dk[r], at.scale, dqkv + at.Key(block.batch, block.head), at.packed, place,
                          at.seq, block.column, at.head_dim);
    StorePlainRow<kWidth>(dv[r], 1.0f, dqkv + at.Value(block.batch, block.head), at.packed, place,
                          at.seq, block.column, at.head_dim);
  }
}

// Computes dq of 64 queries of a head.
template <typename T, int kWidth, bool kBounded>
__global__ void __launch_bounds__(kPlainThreads, kBounded ? 1 : kPlainBackwardBlocks<kWidth>)
    PlainBackwardQueries(AttentionBackwardParams params) {
  ZEROTH_DYNAMIC_SHARED(float, a_tile);
  float* const b_tile = a_tile + kPlainTile * kPlainStride<kWidth>;
  float* const ds = b_tile + kPlainTile * kPlainStride<kWidth>;

  const HeadLayout& at = params.at;
  const PlainBlock block(at.seq, at.heads, kWidth);
  const int query = (block.tiles - 1 - block.tile) * kPlainTile;
  const T* const key_head =
      static_cast<const T*>(params.qkv) + at.Key(block.batch, block.head / at.group());
  PlainSums<kWidth> dq = {};
  const int first_tile = kBounded ? at.FirstKey(block.batch, query) / kPlainTile * kPlainTile : 0;
  for (int key = first_tile; key < std::min(query + kPlainTile, at.seq); key += kPlainTile) {
    ComputeGradients<kWidth, kBounded, T>(params, block.batch, block.head, query, key, a_tile,
                                          b_tile, nullptr, ds);
    LoadPlainTile<kWidth>(at, b_tile, key_head, at.packed, key, block.column);
    __syncthreads();
    AddRowsWeighted<kWidth, kPlainTile>(ds, b_tile, dq);
    __syncthreads();
  }
  T* const dq_head = static_cast<T*>(params.dqkv) + at.Query(block.batch, block.head);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    StorePlainRow<kWidth>(dq[r], at.scale, dq_head, at.packed, query + ScoreRow(r), at.seq,
                          block.column, at.head_dim);
  }
}

template <typename T, int kWidth, bool kBounded>
absl::Status LaunchBoth(const AttentionPlan& plan, const AttentionBackwardParams& params,
                        cudaStream_t stream) {
  ZEROTH_RETURN_IF_ERROR(
      ZEROTH_LAUNCH((PlainBackwardKeys<T, kWidth, kBounded>), plan.backward_keys, stream, params));
  return ZEROTH_LAUNCH((PlainBackwardQueries<T, kWidth, kBounded>), plan.backward_queries, stream,
                       params);
}

template <typename T, int kWidth>
absl::Status LaunchBackward(const AttentionPlan& plan, const AttentionBackwardParams& params,
                            cudaStream_t stream) {
  return params.at.is_bounded() ? LaunchBoth<T, kWidth, true>(plan, params, stream)
                                : LaunchBoth<T, kWidth, false>(plan, params, stream);
}

}  // namespace

absl::Status LaunchPlainForward(const AttentionPlan& plan, DType dtype,
                                const AttentionForwardParams& params, cudaStream_t stream) {
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    return plan.width == 64 ? ZEROTH_LAUNCH((PlainForward<T, 64>), plan.forward, stream, params)
                            : ZEROTH_LAUNCH((PlainForward<T, 128>), plan.forward, stream, params);
  });
}

absl::Status LaunchPlainBackward(const AttentionPlan& plan, DType dtype,
                                 const AttentionBackwardParams& params, cudaStream_t stream) {
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    return plan.width == 64 ? LaunchBackward<T, 64>(plan, params, stream)
                            : LaunchBackward<T, 128>(plan, params, stream);
  });
}

absl::Status LaunchAttentionDelta(const HeadLayout& at, int64_t batch, DType dtype, bool aligned,
                                  const void* dout, const void* out, float* delta,
                                  cudaStream_t stream) {
  const int64_t rows = batch * at.seq * at.heads;
  const LaunchShape shape = ThreadPerItemShape(rows * kLanesPerRow);
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    const T* const a = static_cast<const T*>(dout);
    const T* const b = static_cast<const T*>(out);
    const bool packed = aligned && at.head_dim % kPackWidth<T> == 0;
    return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
      return ZEROTH_LAUNCH((AttentionDelta<width(), T>), shape, stream, at, rows, a, b, delta);
    });
  });
}

}  // namespace zeroth::cuda
