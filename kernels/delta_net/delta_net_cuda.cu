// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/delta_net/delta_net_device.h"
// After kernel_language.h.
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

// A warp computes the length of one query or key.
template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    DeltaLengths(GatedDeltaRuleCall call, int64_t heads, float* inverse) {
  const DeltaNetShape& shape = call.shape;
  const int64_t item = (int64_t{blockIdx.x} * kMapThreads + threadIdx.x) / 32;
  if (item >= heads) return;
  const T* const x = static_cast<const T*>(call.qkv) +
                     item / (2 * shape.key_heads) * shape.packed_dim() +
                     item % (2 * shape.key_heads) * shape.key_dim;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % 32; i < shape.key_dim; i += 32)
    sum += ToFloat(x[i]) * ToFloat(x[i]);
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) inverse[item] = 1.0f / sqrtf(sum + 1e-6f);
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    DeltaGateKernel(GatedDeltaRuleCall call, DeltaGates* gates) {
  const int64_t heads = call.shape.value_heads;
  for (const int64_t item : ItemsOfThread(call.shape.batch * call.shape.seq * heads)) {
    const int64_t head = item % heads;
    const T* const row = static_cast<const T*>(call.gates) + item / heads * 2 * heads;
    const float a = ToFloat(row[heads + head]) + ToFloat(static_cast<const T*>(call.dt_bias)[head]);
    const float rate = expf(ToFloat(static_cast<const T*>(call.log_decay)[head]));
    DeltaGates result;
    result.beta = 1.0f / (1.0f + expf(-ToFloat(row[head])));
    result.g = -rate * (a > 20.0f ? a : log1pf(expf(a)));
    result.decay = expf(result.g);
    result.dg_da = -rate / (1.0f + expf(-a));
    gates[item] = result;
  }
}

template <int kRows, typename T>
__global__ void __launch_bounds__(kDeltaThreads)
    DeltaForward(GatedDeltaRuleCall call, DeltaTokens tokens) {
  ZEROTH_SHARED(float, k, [2][kRows * kDeltaWarps]);
  ZEROTH_SHARED(float, q, [2][kRows * kDeltaWarps]);
  ZEROTH_SHARED(float, remembered, [kDeltaWarps][kColumns]);
  ZEROTH_SHARED(float, results, [kDeltaWarps][kColumns]);
  const DeltaNetShape& shape = call.shape;
  const DeltaPlace at(shape, blockIdx.x, 0);
  // Rows beyond the key's stay zero.
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDeltaWarps; i += kDeltaThreads) {
    k[0][i] = k[1][i] = q[0][i] = q[1][i] = 0.0f;
  }
  __syncthreads();
  const int64_t first_row = at.sequence * shape.seq;
  float state[kRows] = {};
  // The block's columns of an initial or final state.
  const int64_t state_offset =
      (at.sequence * shape.value_heads + at.head) * shape.key_dim * shape.value_dim + at.column;
  if (call.initial_state != nullptr && at.is_valid) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t i = r * kDeltaWarps + at.warp;
      if (i < shape.key_dim) state[r] = call.initial_state[state_offset + i * shape.value_dim];
    }
  }
  if (shape.seq > 0) LoadKeys<T>(call, tokens, at, first_row, k[0], q[0]);
  __syncthreads();
  for (int64_t place = 0; place < shape.seq; ++place) {
    const int64_t row = first_row + place;
    const int buffer = static_cast<int>(place % 2);
    if (call.states != nullptr && place % kDeltaChunk == 0 && at.is_valid) {
      float* const to =
          call.states +
          ((at.sequence * shape.value_heads + at.head) * shape.chunks() + place / kDeltaChunk) *
              shape.key_dim * shape.value_dim;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t i = r * kDeltaWarps + at.warp;
        if (i < shape.key_dim) to[i * shape.value_dim + at.column] = state[r];
      }
    }
    const DeltaGates gates = tokens.gates[row * shape.value_heads + at.head];
    const bool is_first = IsFirst(call, row, place);
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      state[r] = is_first ? 0.0f : state[r] * gates.decay;
      sum += k[buffer][r * kDeltaWarps + at.warp] * state[r];
    }
    remembered[at.warp][at.lane] = sum;
    // The other buffer was last read before the barrier that ended the token before.
    if (place + 1 < shape.seq) LoadKeys<T>(call, tokens, at, row + 1, k[1 - buffer], q[1 - buffer]);
    __syncthreads();
    const float v =
        at.is_valid ? ToFloat(static_cast<const T*>(call.qkv)[at.PackedAt(shape, row)]) : 0.0f;
    const float delta = gates.beta * (v - SumOfWarps(remembered, at.lane));
    sum = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = r * kDeltaWarps + at.warp;
      state[r] += k[buffer][i] * delta;
      sum += q[buffer][i] * state[r];
    }
    results[at.warp][at.lane] = sum;
    __syncthreads();
    if (at.warp == 0 && at.is_valid) {
      static_cast<T*>(call.out)[at.ValueAt(shape, row)] =
          FromFloat<T>(SumOfWarps(results, at.lane));
    }
  }
  if (call.final_state == nullptr || !at.is_valid) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t i = r * kDeltaWarps + at.warp;
    if (i < shape.key_dim) call.final_state[state_offset + i * shape.value_dim] = state[r];
  }
}

absl::Status GatedDeltaRule(const GatedDeltaRuleCall& call, CudaKernels& kernels) {
  const DeltaNetShape& shape = call.shape;
  if (shape.batch == 0 || (shape.seq == 0 && call.final_state == nullptr)) return absl::OkStatus();
  std::shared_ptr<Buffer> memory;
  DeltaTokens tokens = {};
  if (shape.seq > 0) {
    ZEROTH_ASSIGN_OR_RETURN(
        memory, kernels.Scratch(static_cast<size_t>(DeltaTokenFloats(shape)) * sizeof(float)));
    ZEROTH_RETURN_IF_ERROR(
        ComputeDeltaTokens(call, static_cast<float*>(memory->data()), kernels.target(), tokens));
  }
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return DispatchRows(shape.key_dim, [&](auto rows) {
      return ZEROTH_LAUNCH((DeltaForward<rows(), T>),
                           Blocks(shape.batch * shape.value_heads * Slices(shape), kDeltaThreads),
                           kernels.target().stream, call, tokens);
    });
  });
}
const OnCuda<GatedDeltaRule> gated_delta_rule;

}  // namespace

absl::Status ComputeDeltaTokens(const GatedDeltaRuleCall& call, float* scratch,
                                const LaunchTarget& target, DeltaTokens& tokens) {
  const DeltaNetShape& shape = call.shape;
  const int64_t rows = shape.batch * shape.seq;
  auto* const gates = reinterpret_cast<DeltaGates*>(scratch);
  float* const inverse = scratch + 4 * rows * shape.value_heads;
  tokens = {inverse, gates};
  const int64_t heads = rows * 2 * shape.key_heads;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(DeltaLengths<T>, WarpPerRowShape(heads, kMapThreads / 32),
                                         target.stream, call, heads, inverse));
    return ZEROTH_MAP(DeltaGateKernel<T>, rows * shape.value_heads, target, call, gates);
  });
}

}  // namespace zeroth::cuda
