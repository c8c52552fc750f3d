// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Launches the attention kernels: one function for each kernel family, which must match the plan's
// path.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention_plan.h"

namespace zeroth::cuda {

// The layout of heads in qkv and out, in elements.
struct HeadLayout {
  int seq = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t packed = 0;           // from one token to the next in qkv
  int64_t out_token = 0;        // from one token to the next in out
  float scale = 0;              // of the scores
  float cap = 0;                // AttentionShape::cap, which only the plain kernels support
  int window = 0;               // of AttentionShape
  const int* starts = nullptr;  // of AttentionArgs, or null

  // Returns true if a window or documents hide keys.
  __host__ __device__ bool is_bounded() const { return window > 0 || starts != nullptr; }
  __host__ __device__ int group() const { return heads / kv_heads; }
  __host__ __device__ int64_t Query(int64_t batch, int head) const {
    return batch * seq * packed + int64_t{head} * head_dim;
  }
  __host__ __device__ int64_t Key(int64_t batch, int kv_head) const {
    return Query(batch, heads + kv_head);
  }
  __host__ __device__ int64_t Value(int64_t batch, int kv_head) const {
    return Query(batch, heads + kv_heads + kv_head);
  }
  __host__ __device__ int64_t Out(int64_t batch, int head) const {
    return batch * seq * out_token + int64_t{head} * head_dim;
  }
  // Returns the first key that a query sees. It never decreases from one query to the next, so the
  // first key of a tile of queries is that of its first query. A query always sees itself, even if
  // `starts` is wrong. A query beyond the sequence sees the same keys as the last one.
  __host__ __device__ int FirstKey(int64_t batch, int query) const {
    if (!is_bounded()) return 0;
    if (query >= seq) query = seq - 1;
    const int start = starts == nullptr ? 0 : starts[batch * seq + query];
    const int from = window == 0 || query < window ? 0 : query + 1 - window;
    const int first = start > from ? start : from;
    return first < query ? first : query;
  }
  // Returns the start of the first tile of kStep queries, from `query` on, that sees no key before
  // `key`, or the end of the sequence.
  template <int kStep>
  __device__ __forceinline__ int EndOfQueries(int64_t batch, int query, int key) const {
    if (!is_bounded()) return seq;
    while (query < seq && FirstKey(batch, query) < key) query += kStep;
    return query < seq ? query : seq;
  }
  // Returns the offset of a head in lse and delta.
  __host__ __device__ int64_t Statistic(int64_t batch, int head) const {
    return (batch * heads + head) * seq;
  }
};

struct AttentionForwardParams {
  HeadLayout at;
  const void* qkv = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // or null
};

struct AttentionBackwardParams {
  HeadLayout at;
  const void* dout = nullptr;
  const void* qkv = nullptr;
  const float* lse = nullptr;
  const float* delta = nullptr;  // [batch, heads, seq]: dout . out of each row
  void* dqkv = nullptr;
};

absl::Status LaunchMmaForward(const AttentionPlan& plan, DType dtype,
                              const AttentionForwardParams& params, cudaStream_t stream);
absl::Status LaunchMmaBackward(const AttentionPlan& plan, DType dtype,
                               const AttentionBackwardParams& params, cudaStream_t stream);
absl::Status LaunchPlainForward(const AttentionPlan& plan, DType dtype,
                                const AttentionForwardParams& params, cudaStream_t stream);
absl::Status LaunchPlainBackward(const AttentionPlan& plan, DType dtype,
                                 const AttentionBackwardParams& params, cudaStream_t stream);

// delta[batch, heads, seq] = dout . out of each row of a head. `aligned`: both are 16-byte aligned.
absl::Status LaunchAttentionDelta(const HeadLayout& at, int64_t batch, DType dtype, bool aligned,
                                  const void* dout, const void* out, float* delta,
                                  cudaStream_t stream);

}  // namespace zeroth::cuda
