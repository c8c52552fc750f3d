// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention in fp32 arithmetic for every shape and type, with capped scores (kCaps) or without;
// simple rather than fast. A block computes 64 rows and 64 columns of a result from tiles in shared
// memory. Wider heads take several blocks, which all compute the same scores.

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_plan.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"

namespace zeroth::cuda {
namespace {

// A thread's elements of a tile: rows y + 16 r and columns x + 16 c, for thread (x, y) of 16 x 16.
using Elements = float[4][4];
__device__ __forceinline__ int Row(int r) { return static_cast<int>(threadIdx.x) / 16 + 16 * r; }
__device__ __forceinline__ int Column(int c) { return static_cast<int>(threadIdx.x) % 16 + 16 * c; }

template <typename Function>
__device__ __forceinline__ void ForEach(Elements& elements, const Function& function) {
#pragma unroll
  for (int i = 0; i < 16; ++i) function(Row(i / 4), Column(i % 4), elements[i / 4][i % 4]);
}

__device__ __forceinline__ bool Sees(const HeadLayout& at, int64_t batch, int query, int key) {
  return query < at.seq && key <= query && key >= at.FirstKey(batch, query);
}

// Loads a tile: rows from `first` and columns from `column` on, with zeros where the head ends.
template <typename T>
__device__ __forceinline__ void LoadTile(const HeadLayout& at, const T* head, int64_t stride,
                                         int first, int column, float* tile) {
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kPlainTile * kPlainTile; i += kPlainThreads) {
    const int row = first + i / kPlainTile;
    const int from = column + i % kPlainTile;
    tile[i / kPlainTile * kPlainStride + i % kPlainTile] =
        row < at.seq && from < at.head_dim ? ToFloat(head[row * stride + from]) : 0.0f;
  }
}

template <typename T>
__device__ __forceinline__ void StoreTile(const HeadLayout& at, Elements& tile, T* head,
                                          int64_t stride, int first, int column) {
  ForEach(tile, [&](int row, int c, float value) {
    if (first + row >= at.seq || column + c >= at.head_dim) return;
    head[(first + row) * stride + column + c] = FromFloat<T>(value);
  });
}

// sums += a b over `depth` columns of a, where a and b are tiles or their transposes.
template <bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void AddMatmul(const float* a, const float* b, int depth,
                                          Elements& sums) {
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    float left[4];
    float right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[i] = a[kTransposeA ? k * kPlainStride + Row(i) : Row(i) * kPlainStride + k];
      right[i] = b[kTransposeB ? Column(i) * kPlainStride + k : k * kPlainStride + Column(i)];
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      sums[i / 4][i % 4] = __fmaf_rn(left[i / 4], right[i % 4], sums[i / 4][i % 4]);
    }
  }
}

// Returns the scaled and capped score: cap * tanh(score * scale / cap).
__device__ __forceinline__ float Capped(const HeadLayout& at, float score) {
  return at.cap * tanhf(score * at.scale / at.cap);
}

// scores += a b^T over all of head_dim, for the tile of a's rows that begins at `query` and the
// tile of b's rows that begins at `key`. Overwrites the tiles in shared memory; all threads are
// done with them on return.
template <typename T>
__device__ __forceinline__ void AddScores(const HeadLayout& at, const T* a, int64_t a_stride,
                                          int query, const T* b, int key, float* a_tile,
                                          float* b_tile, Elements& scores) {
  for (int column = 0; column < at.head_dim; column += kPlainTile) {
    LoadTile(at, a, a_stride, query, column, a_tile);
    LoadTile(at, b, at.packed, key, column, b_tile);
    __syncthreads();
    AddMatmul<false, true>(a_tile, b_tile, std::min(int{kPlainTile}, at.head_dim - column), scores);
    __syncthreads();
  }
}

template <typename T, bool kCaps>
__global__ void __launch_bounds__(kPlainThreads, 2) PlainForward(AttentionForwardParams params) {
  ZEROTH_DYNAMIC_SHARED(float, a_tile);
  float* const b_tile = a_tile + kPlainTile * kPlainStride;
  float* const weights = b_tile + kPlainTile * kPlainStride;
  float* const factors = weights + kPlainTile * kPlainStride;  // of the rows of out

  const HeadLayout& at = params.at;
  const int tiles = (at.seq + kPlainTile - 1) / kPlainTile;
  // The longest blocks start first.
  const int query = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * kPlainTile;
  const int head = static_cast<int>(blockIdx.x / tiles % at.heads);
  const int64_t batch = blockIdx.x / tiles / at.heads;
  const int column = static_cast<int>(blockIdx.y) * kPlainTile;
  const T* const qkv = static_cast<const T*>(params.qkv);
  const T* const keys = qkv + at.Key(batch, head / at.group());
  const T* const values = qkv + at.Value(batch, head / at.group());

  const int own = static_cast<int>(threadIdx.x);  // the row whose max and sum this thread keeps
  float max = -FLT_MAX;  // finite, so that weights are 0 until the row sees a key
  float sum = 0.0f;
  Elements out = {};
  const int begin = at.FirstKey(batch, query) / kPlainTile * kPlainTile;
  for (int key = begin; key < std::min(query + kPlainTile, at.seq); key += kPlainTile) {
    Elements scores = {};
    AddScores(at, qkv + at.Query(batch, head), at.packed, query, keys, key, a_tile, b_tile, scores);
    ForEach(scores, [&](int row, int c, float score) {
      const bool visible = Sees(at, batch, query + row, key + c);
      const int i = row * kPlainStride + c;
      if constexpr (kCaps) {
        weights[i] = visible ? Capped(at, score) : -INFINITY;
      } else {
        weights[i] = visible ? score * at.scale : -INFINITY;
      }
    });
    LoadTile(at, values, at.packed, key, column, b_tile);
    __syncthreads();
    if (own < kPlainTile) {
      float* const row = weights + own * kPlainStride;
      float largest = max;
      for (int c = 0; c < kPlainTile; ++c) largest = fmaxf(largest, row[c]);
      factors[own] = expf(max - largest);
      max = largest;
      float tile_sum = 0.0f;
      for (int c = 0; c < kPlainTile; ++c) {
        row[c] = expf(row[c] - max);
        tile_sum += row[c];
      }
      sum = sum * factors[own] + tile_sum;
    }
    __syncthreads();
    ForEach(out, [&](int row, int, float& element) { element *= factors[row]; });
    AddMatmul<false, false>(weights, b_tile, kPlainTile, out);
    __syncthreads();
  }

  if (own < kPlainTile) {
    factors[own] = 1.0f / sum;
    if (params.lse != nullptr && column == 0 && query + own < at.seq) {
      params.lse[at.Statistic(batch, head) + query + own] = max + logf(sum);
    }
  }
  __syncthreads();
  ForEach(out, [&](int row, int, float& element) { element *= factors[row]; });
  StoreTile(at, out, static_cast<T*>(params.out) + at.Out(batch, head), at.out_token, query,
            column);
}

// Computes dk and dv of 64 keys from all queries that see them (kOfKeys), or dq of 64 queries from
// all keys that they see. One block computes all of a result, so that the order of sums is fixed.
template <typename T, bool kOfKeys, bool kCaps>
__global__ void __launch_bounds__(kPlainThreads, 2) PlainBackward(AttentionBackwardParams params) {
  ZEROTH_DYNAMIC_SHARED(float, a_tile);
  float* const b_tile = a_tile + kPlainTile * kPlainStride;
  float* const weights = b_tile + kPlainTile * kPlainStride;
  float* const gradients = weights + kPlainTile * kPlainStride;  // of the scores

  const HeadLayout& at = params.at;
  const int tiles = (at.seq + kPlainTile - 1) / kPlainTile;
  const int heads = kOfKeys ? at.kv_heads : at.heads;
  const int tile = static_cast<int>(blockIdx.x % tiles);
  const int own = (kOfKeys ? tile : tiles - 1 - tile) * kPlainTile;
  const int own_head = static_cast<int>(blockIdx.x / tiles % heads);
  const int64_t batch = blockIdx.x / tiles / heads;
  const int column = static_cast<int>(blockIdx.y) * kPlainTile;
  const int kv_head = kOfKeys ? own_head : own_head / at.group();
  const int first_head = kOfKeys ? own_head * at.group() : own_head;
  const int begin = kOfKeys ? own : at.FirstKey(batch, own) / kPlainTile * kPlainTile;
  const int end = kOfKeys ? at.EndOfQueries<kPlainTile>(batch, own, own + kPlainTile)
                          : std::min(own + kPlainTile, at.seq);
  const T* const qkv = static_cast<const T*>(params.qkv);
  const T* const keys = qkv + at.Key(batch, kv_head);
  const T* const values = qkv + at.Value(batch, kv_head);

  Elements result = {};  // dk or dq
  Elements dv = {};
  for (int head = first_head; head < first_head + (kOfKeys ? at.group() : 1); ++head) {
    const T* const queries = qkv + at.Query(batch, head);
    const T* const dout = static_cast<const T*>(params.dout) + at.Out(batch, head);
    const float* const lse = params.lse + at.Statistic(batch, head);
    const float* const delta = params.delta + at.Statistic(batch, head);
    for (int other = begin; other < end; other += kPlainTile) {
      const int query = kOfKeys ? other : own;
      const int key = kOfKeys ? own : other;
      Elements scores = {};
      AddScores(at, queries, at.packed, query, keys, key, a_tile, b_tile, scores);
      ForEach(scores, [&](int row, int c, float score) {
        const bool visible = Sees(at, batch, query + row, key + c);
        const int i = row * kPlainStride + c;
        if constexpr (kCaps) {
          const float capped = Capped(at, score);
          weights[i] = visible ? expf(capped - lse[query + row]) : 0.0f;
          const float t = capped / at.cap;
          gradients[i] = __fmaf_rn(-t, t, 1.0f);  // the cap's slope, until the gradient is known
        } else {
          weights[i] = visible ? expf(score * at.scale - lse[query + row]) : 0.0f;
        }
      });
      Elements products = {};
      AddScores(at, dout, at.out_token, query, values, key, a_tile, b_tile, products);
      ForEach(products, [&](int row, int c, float product) {
        const int i = row * kPlainStride + c;
        const bool visible = Sees(at, batch, query + row, key + c);
        [[maybe_unused]] const float slope = kCaps ? gradients[i] : 1.0f;
        gradients[i] = visible ? weights[i] * (product - delta[query + row]) * at.scale : 0.0f;
        if constexpr (kCaps) gradients[i] *= slope;
      });
      LoadTile(at, kOfKeys ? queries : keys, at.packed, other, column, a_tile);
      if (kOfKeys) LoadTile(at, dout, at.out_token, query, column, b_tile);
      __syncthreads();
      AddMatmul<kOfKeys, false>(gradients, a_tile, kPlainTile, result);
      if (kOfKeys) AddMatmul<true, false>(weights, b_tile, kPlainTile, dv);
      __syncthreads();
    }
  }
  T* const dqkv = static_cast<T*>(params.dqkv);
  T* const to = dqkv + (kOfKeys ? at.Key(batch, kv_head) : at.Query(batch, own_head));
  StoreTile(at, result, to, at.packed, own, column);
  if (kOfKeys) StoreTile(at, dv, dqkv + at.Value(batch, kv_head), at.packed, own, column);
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

}  // namespace

absl::Status LaunchPlainForward(const AttentionPlan& plan, DType dtype,
                                const AttentionForwardParams& params, cudaStream_t stream) {
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    if (params.at.cap > 0) {
      return ZEROTH_LAUNCH((PlainForward<T, true>), plan.forward, stream, params);
    }
    return ZEROTH_LAUNCH((PlainForward<T, false>), plan.forward, stream, params);
  });
}

namespace {

template <typename T, bool kCaps>
absl::Status LaunchBackward(const AttentionPlan& plan, const AttentionBackwardParams& params,
                            cudaStream_t stream) {
  ZEROTH_RETURN_IF_ERROR(
      ZEROTH_LAUNCH((PlainBackward<T, true, kCaps>), plan.backward_keys, stream, params));
  return ZEROTH_LAUNCH((PlainBackward<T, false, kCaps>), plan.backward_queries, stream, params);
}

}  // namespace

absl::Status LaunchPlainBackward(const AttentionPlan& plan, DType dtype,
                                 const AttentionBackwardParams& params, cudaStream_t stream) {
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    return params.at.cap > 0 ? LaunchBackward<T, true>(plan, params, stream)
                             : LaunchBackward<T, false>(plan, params, stream);
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
