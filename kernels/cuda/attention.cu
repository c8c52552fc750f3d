// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// In float arithmetic for any head_dim up to 256 and either element type: what fp32 parity is
// measured with. Tiles are 32 queries by 32 keys; a block of 256 threads holds one tile's products
// in shared memory and its results in registers.

#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/attention.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kThreads = 256;
constexpr int kGroups = kThreads / kTile;         // warps
constexpr int kRowsPerWarp = kTile / kGroups;     // of a tile of scores
constexpr int kThreadsPerRow = kThreads / kTile;  // of a tile of results
constexpr int kScoreStride = kTile + 1;           // odd, so that columns lie in different banks

// What all three kernels know of where things lie.
struct Geometry {
  int64_t seq;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t packed_dim;
  float scale;

  __device__ int64_t Group() const { return heads / kv_heads; }
  // First element of a head's row in the packed tensor; `slot` counts query, key and value heads.
  __device__ int64_t Packed(int64_t batch, int64_t row, int64_t slot) const {
    return (batch * seq + row) * packed_dim + slot * head_dim;
  }
  __device__ int64_t Plain(int64_t batch, int64_t row, int64_t head) const {
    return ((batch * seq + row) * heads + head) * head_dim;
  }
  __device__ int64_t Statistic(int64_t batch, int64_t head, int64_t row) const {
    return (batch * heads + head) * seq + row;
  }
};

// tile[r][d] = rows [first, first + kTile) of a matrix whose rows are `stride` apart; zeros past
// `rows`.
template <typename T>
__device__ __forceinline__ void LoadTile(const T* matrix, int64_t stride, int64_t rows,
                                         int64_t head_dim, float* tile, int tile_stride) {
  const int items = kTile * static_cast<int>(head_dim);
  for (int item = static_cast<int>(threadIdx.x); item < items; item += kThreads) {
    const int row = item / static_cast<int>(head_dim);
    const int d = item % static_cast<int>(head_dim);
    tile[row * tile_stride + d] = row < rows ? ToFloat(matrix[row * stride + d]) : 0.0f;
  }
}

// scores[r][c] = dot(left[r], right[c]) for the rows of this thread's warp and its lane's column.
__device__ __forceinline__ void DotRows(const float* left, const float* right, int head_dim,
                                        int tile_stride, float (&scores)[kRowsPerWarp]) {
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile * kRowsPerWarp;
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) scores[i] = 0.0f;
  for (int d = 0; d < head_dim; ++d) {
    const float r = right[column * tile_stride + d];
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      scores[i] = __fmaf_rn(left[(first + i) * tile_stride + d], r, scores[i]);
    }
  }
}

// results[r][d] += sum over c of weights(r, c) * right[c][d], for this thread's row and its every
// kThreadsPerRow-th d. kByColumn: weights are read transposed.
template <int kMaxItems, bool kByColumn>
__device__ __forceinline__ void AddProducts(const float* weights, const float* right, int head_dim,
                                            int tile_stride, float (&results)[kMaxItems]) {
  const int row = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  const int first = static_cast<int>(threadIdx.x) % kThreadsPerRow;
  for (int c = 0; c < kTile; ++c) {
    const float w = kByColumn ? weights[c * kScoreStride + row] : weights[row * kScoreStride + c];
#pragma unroll
    for (int i = 0; i < kMaxItems; ++i) {
      const int d = first + i * kThreadsPerRow;
      if (d < head_dim) results[i] = __fmaf_rn(w, right[c * tile_stride + d], results[i]);
    }
  }
}

template <int kMaxItems, typename T>
__device__ __forceinline__ void StoreRow(const float (&results)[kMaxItems], float factor,
                                         int head_dim, T* out) {
  const int first = static_cast<int>(threadIdx.x) % kThreadsPerRow;
#pragma unroll
  for (int i = 0; i < kMaxItems; ++i) {
    const int d = first + i * kThreadsPerRow;
    if (d < head_dim) out[d] = FromFloat<T>(results[i] * factor);
  }
}

template <typename T, int kMaxItems>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(Geometry g, const T* qkv, T* out, float* lse) {
  ZEROTH_DYNAMIC_SHARED(float, shared);
  const int head_dim = static_cast<int>(g.head_dim);
  const int stride = head_dim + 1;
  float* const q = shared;
  float* const k = q + kTile * stride;
  float* const v = k + kTile * stride;
  float* const scores = v + kTile * stride;
  float* const largest = scores + kTile * kScoreStride;
  float* const sums = largest + kTile;
  float* const rescale = sums + kTile;

  const int64_t query_tile = blockIdx.x;
  const int64_t head = blockIdx.y;
  const int64_t batch = blockIdx.z;
  const int64_t kv_head = head / g.Group();
  const int64_t first_query = query_tile * kTile;
  LoadTile(qkv + g.Packed(batch, first_query, head), g.packed_dim, g.seq - first_query, g.head_dim,
           q, stride);
  if (threadIdx.x < kTile) {
    largest[threadIdx.x] = -3.0e38f;
    sums[threadIdx.x] = 0.0f;
  }
  float results[kMaxItems] = {};
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const int first_row = static_cast<int>(threadIdx.x) / kTile * kRowsPerWarp;
  const int own_row = static_cast<int>(threadIdx.x) / kThreadsPerRow;
  for (int64_t key_tile = 0; key_tile <= query_tile; ++key_tile) {
    const int64_t first_key = key_tile * kTile;
    __syncthreads();  // nobody reads the last tiles any more
    LoadTile(qkv + g.Packed(batch, first_key, g.heads + kv_head), g.packed_dim, g.seq - first_key,
             g.head_dim, k, stride);
    LoadTile(qkv + g.Packed(batch, first_key, g.heads + g.kv_heads + kv_head), g.packed_dim,
             g.seq - first_key, g.head_dim, v, stride);
    __syncthreads();
    float s[kRowsPerWarp];
    DotRows(q, k, head_dim, stride, s);
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = first_row + i;
      const bool seen = first_key + lane <= first_query + row && first_key + lane < g.seq;
      const float score = seen ? s[i] * g.scale : -3.0e38f;
      const float before = largest[row];
      const float most = fmaxf(before, WarpMax(score));
      const float p = seen ? expf(score - most) : 0.0f;
      const float sum = WarpSum(p);
      scores[row * kScoreStride + lane] = p;
      __syncwarp();
      if (lane == 0) {
        const float factor = expf(before - most);
        rescale[row] = factor;
        largest[row] = most;
        sums[row] = sums[row] * factor + sum;
      }
    }
    __syncthreads();
    const float factor = rescale[own_row];
#pragma unroll
    for (int i = 0; i < kMaxItems; ++i) results[i] *= factor;
    AddProducts<kMaxItems, false>(scores, v, head_dim, stride, results);
  }
  const int64_t query = first_query + own_row;
  if (query >= g.seq) return;
  StoreRow(results, 1.0f / sums[own_row], head_dim, out + g.Plain(batch, query, head));
  if (lse != nullptr && threadIdx.x % kThreadsPerRow == 0) {
    lse[g.Statistic(batch, head, query)] = largest[own_row] + logf(sums[own_row]);
  }
}

// delta[b, h, s] = dot(dout, out) of each query's row: what softmax's backward subtracts.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DeltaKernel(Geometry g, int64_t rows, const T* dout, const T* out, float* delta) {
  const int64_t item = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;  // a warp each
  if (item >= rows) return;
  const int64_t head = item % g.heads;
  const int64_t place = item / g.heads;
  float sum = 0.0f;
  for (int64_t d = threadIdx.x % 32; d < g.head_dim; d += 32) {
    sum += ToFloat(dout[item * g.head_dim + d]) * ToFloat(out[item * g.head_dim + d]);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) delta[g.Statistic(place / g.seq, head, place % g.seq)] = sum;
}

// Probabilities and their gradients of one tile of queries and keys, into `p` and `ds`.
__device__ __forceinline__ void TileGradients(const Geometry& g, const float* q, const float* k,
                                              const float* v, const float* dout, int head_dim,
                                              int stride, int64_t first_query, int64_t first_key,
                                              const float* lse, const float* delta, float* p,
                                              float* ds) {
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const int first_row = static_cast<int>(threadIdx.x) / kTile * kRowsPerWarp;
  float s[kRowsPerWarp];
  float dp[kRowsPerWarp];
  DotRows(q, k, head_dim, stride, s);
  DotRows(dout, v, head_dim, stride, dp);
#pragma unroll
  for (int i = 0; i < kRowsPerWarp; ++i) {
    const int row = first_row + i;
    const int64_t query = first_query + row;
    const bool seen = query < g.seq && first_key + lane <= query;
    const float probability = seen ? expf(s[i] * g.scale - lse[query]) : 0.0f;
    p[row * kScoreStride + lane] = probability;
    ds[row * kScoreStride + lane] = seen ? probability * (dp[i] - delta[query]) * g.scale : 0.0f;
  }
}

template <typename T, int kMaxItems>
__global__ void __launch_bounds__(kThreads)
    KeyValueGradients(Geometry g, const T* qkv, const T* dout, const float* lse, const float* delta,
                      T* dqkv) {
  ZEROTH_DYNAMIC_SHARED(float, shared);
  const int head_dim = static_cast<int>(g.head_dim);
  const int stride = head_dim + 1;
  float* const k = shared;
  float* const v = k + kTile * stride;
  float* const q = v + kTile * stride;
  float* const dy = q + kTile * stride;
  float* const p = dy + kTile * stride;
  float* const ds = p + kTile * kScoreStride;

  const int64_t key_tile = blockIdx.x;
  const int64_t kv_head = blockIdx.y;
  const int64_t batch = blockIdx.z;
  const int64_t first_key = key_tile * kTile;
  const int64_t key_slot = g.heads + kv_head;
  const int64_t value_slot = g.heads + g.kv_heads + kv_head;
  LoadTile(qkv + g.Packed(batch, first_key, key_slot), g.packed_dim, g.seq - first_key, g.head_dim,
           k, stride);
  LoadTile(qkv + g.Packed(batch, first_key, value_slot), g.packed_dim, g.seq - first_key,
           g.head_dim, v, stride);
  float dk[kMaxItems] = {};
  float dv[kMaxItems] = {};
  const int64_t tiles = (g.seq + kTile - 1) / kTile;
  // The heads that share these keys, in order, and each head's queries.
  for (int64_t head = kv_head * g.Group(); head < (kv_head + 1) * g.Group(); ++head) {
    for (int64_t query_tile = key_tile; query_tile < tiles; ++query_tile) {
      const int64_t first_query = query_tile * kTile;
      __syncthreads();
      LoadTile(qkv + g.Packed(batch, first_query, head), g.packed_dim, g.seq - first_query,
               g.head_dim, q, stride);
      LoadTile(dout + g.Plain(batch, first_query, head), g.heads * g.head_dim, g.seq - first_query,
               g.head_dim, dy, stride);
      __syncthreads();
      const int64_t statistics = g.Statistic(batch, head, 0);
      TileGradients(g, q, k, v, dy, head_dim, stride, first_query, first_key, lse + statistics,
                    delta + statistics, p, ds);
      __syncthreads();
      AddProducts<kMaxItems, true>(p, dy, head_dim, stride, dv);
      AddProducts<kMaxItems, true>(ds, q, head_dim, stride, dk);
    }
  }
  const int64_t key = first_key + threadIdx.x / kThreadsPerRow;
  if (key >= g.seq) return;
  StoreRow(dk, 1.0f, head_dim, dqkv + g.Packed(batch, key, key_slot));
  StoreRow(dv, 1.0f, head_dim, dqkv + g.Packed(batch, key, value_slot));
}

template <typename T, int kMaxItems>
__global__ void __launch_bounds__(kThreads)
    QueryGradients(Geometry g, const T* qkv, const T* dout, const float* lse, const float* delta,
                   T* dqkv) {
  ZEROTH_DYNAMIC_SHARED(float, shared);
  const int head_dim = static_cast<int>(g.head_dim);
  const int stride = head_dim + 1;
  float* const k = shared;
  float* const v = k + kTile * stride;
  float* const q = v + kTile * stride;
  float* const dy = q + kTile * stride;
  float* const p = dy + kTile * stride;
  float* const ds = p + kTile * kScoreStride;

  const int64_t query_tile = blockIdx.x;
  const int64_t head = blockIdx.y;
  const int64_t batch = blockIdx.z;
  const int64_t kv_head = head / g.Group();
  const int64_t first_query = query_tile * kTile;
  LoadTile(qkv + g.Packed(batch, first_query, head), g.packed_dim, g.seq - first_query, g.head_dim,
           q, stride);
  LoadTile(dout + g.Plain(batch, first_query, head), g.heads * g.head_dim, g.seq - first_query,
           g.head_dim, dy, stride);
  float dq[kMaxItems] = {};
  const int64_t statistics = g.Statistic(batch, head, 0);
  for (int64_t key_tile = 0; key_tile <= query_tile; ++key_tile) {
    const int64_t first_key = key_tile * kTile;
    __syncthreads();
    LoadTile(qkv + g.Packed(batch, first_key, g.heads + kv_head), g.packed_dim, g.seq - first_key,
             g.head_dim, k, stride);
    LoadTile(qkv + g.Packed(batch, first_key, g.heads + g.kv_heads + kv_head), g.packed_dim,
             g.seq - first_key, g.head_dim, v, stride);
    __syncthreads();
    TileGradients(g, q, k, v, dy, head_dim, stride, first_query, first_key, lse + statistics,
                  delta + statistics, p, ds);
    __syncthreads();
    AddProducts<kMaxItems, false>(ds, k, head_dim, stride, dq);
  }
  const int64_t query = first_query + threadIdx.x / kThreadsPerRow;
  if (query >= g.seq) return;
  StoreRow(dq, 1.0f, head_dim, dqkv + g.Packed(batch, query, head));
}

Geometry MakeGeometry(const AttentionShape& shape) {
  return {shape.seq,      shape.heads,        shape.kv_heads,
          shape.head_dim, shape.packed_dim(), 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
}

// tiles: of [kTile, head_dim]; scores: of [kTile, kTile].
size_t SharedBytes(int64_t head_dim, int tiles, int scores, int statistics) {
  return static_cast<size_t>(tiles * kTile * (head_dim + 1) + scores * kTile * kScoreStride +
                             statistics * kTile) *
         sizeof(float);
}

LaunchShape TilesShape(const AttentionShape& shape, int64_t heads, size_t shared_bytes) {
  return {dim3(static_cast<unsigned>((shape.seq + kTile - 1) / kTile), static_cast<unsigned>(heads),
               static_cast<unsigned>(shape.batch)),
          dim3(kThreads), shared_bytes};
}

bool IsEmpty(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.heads * shape.head_dim == 0;
}

absl::Status CheckHeadDim(int64_t head_dim) {
  if (head_dim <= kLargestHeadDim) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("attention on CUDA: head_dim is ", head_dim,
                                               ", expected at most ", kLargestHeadDim));
}

// function(std::integral_constant<int, items>()) for the registers that a row's part needs.
template <typename Function>
absl::Status DispatchHeadDim(int64_t head_dim, const Function& function) {
  if (head_dim <= 64) return function(std::integral_constant<int, 64 / kThreadsPerRow>());
  if (head_dim <= 128) return function(std::integral_constant<int, 128 / kThreadsPerRow>());
  return function(std::integral_constant<int, 256 / kThreadsPerRow>());
}

template <typename T, int kItems>
absl::Status LaunchForward(const AttentionCall& call, const LaunchTarget& target) {
  const LaunchShape shape =
      TilesShape(call.shape, call.shape.heads, SharedBytes(call.shape.head_dim, 3, 1, 3));
  return ZEROTH_LAUNCH((ForwardKernel<T, kItems>), shape, target.stream, MakeGeometry(call.shape),
                       static_cast<const T*>(call.qkv), static_cast<T*>(call.out), call.lse);
}

template <typename T, int kItems>
absl::Status LaunchBackward(const AttentionBackwardCall& call, const LaunchTarget& target) {
  const size_t shared_bytes = SharedBytes(call.shape.head_dim, 4, 2, 0);
  const Geometry geometry = MakeGeometry(call.shape);
  const auto* qkv = static_cast<const T*>(call.qkv);
  const auto* dout = static_cast<const T*>(call.dout);
  auto* dqkv = static_cast<T*>(call.dqkv);
  const int64_t rows = call.shape.batch * call.shape.seq * call.shape.heads;
  ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(DeltaKernel<T>, WarpPerRowShape(rows, kThreads / 32),
                                       target.stream, geometry, rows, dout,
                                       static_cast<const T*>(call.out), call.scratch));
  const LaunchShape keys = TilesShape(call.shape, call.shape.kv_heads, shared_bytes);
  const absl::Status launched = ZEROTH_LAUNCH((KeyValueGradients<T, kItems>), keys, target.stream,
                                              geometry, qkv, dout, call.lse, call.scratch, dqkv);
  if (!launched.ok()) return launched;
  const LaunchShape queries = TilesShape(call.shape, call.shape.heads, shared_bytes);
  return ZEROTH_LAUNCH((QueryGradients<T, kItems>), queries, target.stream, geometry, qkv, dout,
                       call.lse, call.scratch, dqkv);
}

}  // namespace

absl::Status Attention(const AttentionCall& call, const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(CheckHeadDim(call.shape.head_dim));
  return DispatchType(call.dtype, [&](auto tag) {
    return DispatchHeadDim(call.shape.head_dim, [&](auto items) {
      return LaunchForward<typename decltype(tag)::type, decltype(items)::value>(call, target);
    });
  });
}

int64_t AttentionBackwardScratch(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq;
}

absl::Status AttentionBackward(const AttentionBackwardCall& call, const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(CheckHeadDim(call.shape.head_dim));
  return DispatchType(call.dtype, [&](auto tag) {
    return DispatchHeadDim(call.shape.head_dim, [&](auto items) {
      return LaunchBackward<typename decltype(tag)::type, decltype(items)::value>(call, target);
    });
  });
}

}  // namespace zeroth::cuda
