// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the GPU's forward and backward of the gated delta rule share. A block computes kColumns
// columns of the state of one value head of one sequence; columns do not depend on each other. Its
// warps divide the rows of the state, which a thread keeps in registers.

#pragma once

#include "zeroth/core/device/cuda/kernel_language.h"
// After kernel_language.h.
#include "absl/status/status.h"

#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/delta_net_scratch.h"

namespace zeroth::cuda {

inline constexpr int kDeltaThreads = kColumns * kDeltaWarps;

// The gates of a token and a value head.
struct DeltaGates {
  float beta;
  float decay;  // e^g
  float g;
  float dg_da;
};

static_assert(sizeof(DeltaGates) == 4 * sizeof(float));

// The results of the first kernels of a call, for all tokens.
struct DeltaTokens {
  const float* inverse;     // [rows, 2 * key_heads]: 1 / length of queries, then of keys
  const DeltaGates* gates;  // [rows, value_heads]
};

// The place of a thread in the work.
struct DeltaPlace {
  __device__ __forceinline__ DeltaPlace(const DeltaNetShape& shape, int64_t block,
                                        int64_t first_sequence)
      : slice(block % Slices(shape)),
        head(block / Slices(shape) % shape.value_heads),
        sequence(first_sequence + block / Slices(shape) / shape.value_heads),
        key_head(head / (shape.value_heads / shape.key_heads)),
        lane(static_cast<int>(threadIdx.x % kColumns)),
        warp(static_cast<int>(threadIdx.x / kColumns)),
        column(slice * kColumns + lane),
        is_valid(column < shape.value_dim) {}
  int64_t slice;
  int64_t head;
  int64_t sequence;
  int64_t key_head;
  int lane;
  int warp;
  int64_t column;
  bool is_valid;

  // The element of [rows, value_heads, value_dim] that belongs to the thread's column.
  __device__ __forceinline__ int64_t ValueAt(const DeltaNetShape& shape, int64_t row) const {
    return (row * shape.value_heads + head) * shape.value_dim + column;
  }
  // The value's element of [rows, packed_dim].
  __device__ __forceinline__ int64_t PackedAt(const DeltaNetShape& shape, int64_t row) const {
    return row * shape.packed_dim() + 2 * shape.key_heads * shape.key_dim + head * shape.value_dim +
           column;
  }
};

// Returns true if there is no earlier state.
__device__ __forceinline__ bool IsFirst(const GatedDeltaRuleCall& call, int64_t row,
                                        int64_t place) {
  if (place == 0) return call.initial_state == nullptr;
  return call.starts != nullptr && call.starts[row] == place;
}

// Loads the normalised key and query of a row, all threads together.
template <typename T>
__device__ __forceinline__ void LoadKeys(const GatedDeltaRuleCall& call, const DeltaTokens& tokens,
                                         const DeltaPlace& at, int64_t row, float* k, float* q) {
  const DeltaNetShape& shape = call.shape;
  const float* const inverse = tokens.inverse + row * 2 * shape.key_heads + at.key_head;
  const T* const from =
      static_cast<const T*>(call.qkv) + row * shape.packed_dim() + at.key_head * shape.key_dim;
  const float of_q = inverse[0] * rsqrtf(static_cast<float>(shape.key_dim));
  const float of_k = inverse[shape.key_heads];
  for (int64_t i = threadIdx.x; i < shape.key_dim; i += kDeltaThreads) {
    q[i] = ToFloat(from[i]) * of_q;
    k[i] = ToFloat(from[shape.key_heads * shape.key_dim + i]) * of_k;
  }
}

// Returns the sum over warps of the values for the thread's column, which the warps have written to
// `sums`, in shared memory.
__device__ __forceinline__ float SumOfWarps(const float (&sums)[kDeltaWarps][kColumns], int lane) {
  float sum = sums[0][lane];
#pragma unroll
  for (int i = 1; i < kDeltaWarps; ++i) sum += sums[i][lane];
  return sum;
}

// Calls function(integral constant) with the rows of a state that a thread keeps.
template <typename Function>
absl::Status DispatchRows(int64_t key_dim, const Function& function) {
  if (StateRows(key_dim) == kFewestStateRows) {
    return function(std::integral_constant<int, kFewestStateRows / kDeltaWarps>());
  }
  if (StateRows(key_dim) == kManyStateRows) {
    return function(std::integral_constant<int, kManyStateRows / kDeltaWarps>());
  }
  return function(std::integral_constant<int, static_cast<int>(kMostKeyDim / kDeltaWarps)>());
}

// Enqueues the computation of `tokens` in `scratch`, which has DeltaTokenFloats(shape).
absl::Status ComputeDeltaTokens(const GatedDeltaRuleCall& call, float* scratch,
                                const LaunchTarget& target, DeltaTokens& tokens);

}  // namespace zeroth::cuda
