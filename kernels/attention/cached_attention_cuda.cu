// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A block computes one query of one head, which suits generation with one new token at a time. The
// kernels of training compute prompts.

#include <algorithm>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

// Number of keys in a tile; each thread computes the score of one.
constexpr int kThreads = 128;

// Copies the new tokens' keys and values to the cache, where they lie side by side as in qkv.
template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Append(CachedAttentionCall call, int64_t row) {
  const int64_t packed = call.shape.heads * call.shape.head_dim + row;
  const T* const from = static_cast<const T*>(call.qkv) + call.shape.heads * call.shape.head_dim;
  T* const to = static_cast<T*>(call.cache) + call.past * row;
  for (const int64_t item : ItemsOfThread(call.shape.seq * row)) {
    to[item] = from[item / row * packed + item % row];
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) Attend(CachedAttentionCall call, float scale) {
  ZEROTH_DYNAMIC_SHARED(float, query);  // [head_dim], followed by as many sums of values
  ZEROTH_SHARED(float, weights, [kThreads]);
  ZEROTH_SHARED(float, scratch, [kThreads / 32]);
  const int64_t heads = call.shape.heads;
  const int64_t kv_heads = call.shape.kv_heads;
  const int64_t dim = call.shape.head_dim;
  const int64_t row = 2 * kv_heads * dim;
  const int64_t token = blockIdx.x / heads;
  const int64_t head = blockIdx.x % heads;
  const T* const own = static_cast<const T*>(call.qkv) + token * (heads * dim + row) + head * dim;
  const T* const keys = static_cast<const T*>(call.cache) + head / (heads / kv_heads) * dim;
  const T* const values = keys + kv_heads * dim;
  float* const sums = query + dim;
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) {
    query[i] = scale * ToFloat(own[i]);
    sums[i] = 0.0f;
  }
  __syncthreads();
  const int64_t end = call.past + token + 1;
  const int64_t window = call.shape.window;
  float max = -INFINITY;
  float total = 0.0f;
  for (int64_t begin = window == 0 || end < window ? 0 : end - window; begin < end;
       begin += kThreads) {
    const int64_t key = begin + threadIdx.x;
    float score = key < end ? 0.0f : -INFINITY;
    for (int64_t i = 0; key < end && i < dim; ++i) {
      score = __fmaf_rn(query[i], ToFloat(keys[key * row + i]), score);
    }
    if (call.shape.cap > 0.0f && key < end) {
      score = call.shape.cap * tanhf(score / call.shape.cap);
    }
    const float larger = fmaxf(max, BlockMax<kThreads>(score, scratch));
    const float shrink = expf(max - larger);
    max = larger;
    const float weight = expf(score - max);
    weights[threadIdx.x] = weight;
    total = __fmaf_rn(total, shrink, BlockSum<kThreads>(weight, scratch));
    const int64_t count = end - begin < kThreads ? end - begin : kThreads;
    for (int64_t i = threadIdx.x; i < dim; i += kThreads) {
      float sum = sums[i] * shrink;
      for (int64_t j = 0; j < count; ++j) {
        sum = __fmaf_rn(weights[j], ToFloat(values[(begin + j) * row + i]), sum);
      }
      sums[i] = sum;
    }
    __syncthreads();  // the weights may be written again
  }
  T* const out = static_cast<T*>(call.out) + (token * heads + head) * dim;
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) out[i] = FromFloat<T>(sums[i] / total);
  if (call.lse != nullptr && threadIdx.x == 0) {
    call.lse[head * call.shape.seq + token] = max + logf(total);
  }
}

absl::Status Run(const CachedAttentionCall& call, CudaKernels& kernels) {
  const AttentionShape& shape = call.shape;
  if (IsEmpty(shape)) return absl::OkStatus();
  const LaunchTarget& target = kernels.target();
  const int64_t row = 2 * shape.kv_heads * shape.head_dim;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(ZEROTH_MAP(Append<T>, shape.seq * row, target, call, row));
    if (call.past == 0) {
      return KernelTable<AttentionCall>::Find(kernels)(
          kernels, {shape, call.dtype, call.qkv, nullptr, call.out, call.lse}, {});
    }
    const LaunchShape blocks = Blocks(shape.seq * shape.heads, kThreads,
                                      2 * static_cast<size_t>(shape.head_dim) * sizeof(float));
    return ZEROTH_LAUNCH(Attend<T>, blocks, target.stream, call, shape.score_scale());
  });
}
const OnCuda<Run> cached_attention;

}  // namespace
}  // namespace zeroth::cuda
