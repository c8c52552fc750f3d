// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/delta_net/delta_net_device.h"
// After kernel_language.h.
#include <algorithm>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

// Backward goes from the last chunk to the first, with one launch for each, and a few sequences at
// a time. What a launch's blocks keep:
struct ChunkMemory {
  float* dstates;  // [blocks, rows of a state, kColumns]: the gradient of the state after the chunk
  float* decayed;  // [blocks, kDeltaChunk, rows of a state, kColumns]
  float* missed;   // [blocks, kDeltaChunk, kColumns]
  float* delta;    // the same
  float* dkeys;    // [blocks, kDeltaChunk, 2, rows of a state]: of queries, then of keys
  float* dgates;   // [blocks, kDeltaChunk, 2]: of beta, then of g
};

// The sequences and the chunk of a launch.
struct ChunkPlace {
  int64_t first_sequence;
  int64_t sequences;
  int64_t chunk;
  int64_t tokens;  // in the chunk
  __device__ __forceinline__ int64_t RowOf(const DeltaNetShape& shape, int64_t sequence,
                                           int64_t token) const {
    return sequence * shape.seq + chunk * kDeltaChunk + token;
  }
};

template <int kRows, typename T>
__global__ void __launch_bounds__(kDeltaThreads)
    DeltaChunkBackward(GatedDeltaRuleBackwardCall call, DeltaTokens tokens, ChunkPlace chunk,
                       ChunkMemory memory) {
  constexpr int kStateRows = kRows * kDeltaWarps;
  ZEROTH_SHARED(float, k, [kStateRows]);
  ZEROTH_SHARED(float, q, [kStateRows]);
  ZEROTH_SHARED(float, sums, [kDeltaWarps][kColumns]);
  ZEROTH_SHARED(float, of_warps, [kDeltaWarps]);
  const GatedDeltaRuleCall& forward = call.forward;
  const DeltaNetShape& shape = forward.shape;
  const DeltaPlace at(shape, blockIdx.x, chunk.first_sequence);
  const int64_t block = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < kStateRows; i += kDeltaThreads)
    k[i] = q[i] = 0.0f;
  __syncthreads();
  // The states again.
  float state[kRows] = {};
  const float* const saved =
      forward.states +
      ((at.sequence * shape.value_heads + at.head) * shape.chunks() + chunk.chunk) * shape.key_dim *
          shape.value_dim;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t i = r * kDeltaWarps + at.warp;
    if (i < shape.key_dim && at.is_valid) state[r] = saved[i * shape.value_dim + at.column];
  }
  for (int64_t t = 0; t < chunk.tokens; ++t) {
    const int64_t row = chunk.RowOf(shape, at.sequence, t);
    LoadKeys<T>(forward, tokens, at, row, k, q);
    __syncthreads();
    const DeltaGates gates = tokens.gates[row * shape.value_heads + at.head];
    const bool is_first = IsFirst(forward, row, chunk.chunk * kDeltaChunk + t);
    float* const decayed = memory.decayed + (block * kDeltaChunk + t) * kStateRows * kColumns;
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = r * kDeltaWarps + at.warp;
      state[r] = is_first ? 0.0f : state[r] * gates.decay;
      decayed[i * kColumns + at.lane] = state[r];
      sum += k[i] * state[r];
    }
    sums[at.warp][at.lane] = sum;
    __syncthreads();
    const float v =
        at.is_valid ? ToFloat(static_cast<const T*>(forward.qkv)[at.PackedAt(shape, row)]) : 0.0f;
    const float missed = v - SumOfWarps(sums, at.lane);
    const float delta = gates.beta * missed;
#pragma unroll
    for (int r = 0; r < kRows; ++r) state[r] += k[r * kDeltaWarps + at.warp] * delta;
    if (at.warp == 0) {
      const int64_t kept = (block * kDeltaChunk + t) * kColumns + at.lane;
      memory.missed[kept] = missed;
      memory.delta[kept] = delta;
    }
    __syncthreads();
  }
  float dstate[kRows];
  float* const carried = memory.dstates + block * kStateRows * kColumns;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    dstate[r] = carried[(r * kDeltaWarps + at.warp) * kColumns + at.lane];
  }
  for (int64_t t = chunk.tokens - 1; t >= 0; --t) {
    const int64_t row = chunk.RowOf(shape, at.sequence, t);
    LoadKeys<T>(forward, tokens, at, row, k, q);
    __syncthreads();
    const DeltaGates gates = tokens.gates[row * shape.value_heads + at.head];
    const bool is_first = IsFirst(forward, row, chunk.chunk * kDeltaChunk + t);
    const int64_t token = block * kDeltaChunk + t;
    const float missed = memory.missed[token * kColumns + at.lane];
    const float delta = memory.delta[token * kColumns + at.lane];
    const float dout =
        at.is_valid ? ToFloat(static_cast<const T*>(call.dout)[at.ValueAt(shape, row)]) : 0.0f;
    const float along = WarpSum(delta * dout);
    float* const dq = memory.dkeys + token * 2 * kStateRows;
    float* const dk = dq + kStateRows;
    const float* const decayed = memory.decayed + token * kStateRows * kColumns;
    float ddelta = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = r * kDeltaWarps + at.warp;
      state[r] = decayed[i * kColumns + at.lane];
      dstate[r] += q[i] * dout;
      ddelta += k[i] * dstate[r];
      const float sum = WarpSum(state[r] * dout) + k[i] * along;
      if (at.lane == 0) dq[i] = sum;
    }
    sums[at.warp][at.lane] = ddelta;
    __syncthreads();
    ddelta = SumOfWarps(sums, at.lane);
    const float dv = gates.beta * ddelta;
    const float dbeta = WarpSum(ddelta * missed);
    float dg = 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int i = r * kDeltaWarps + at.warp;
      const float sum = WarpSum(dstate[r] * delta - state[r] * dv);
      if (at.lane == 0) dk[i] = sum;
      dstate[r] -= k[i] * dv;
      dg += dstate[r] * state[r];
      dstate[r] = is_first ? 0.0f : dstate[r] * gates.decay;
    }
    dg = WarpSum(dg);
    if (at.lane == 0) of_warps[at.warp] = is_first ? 0.0f : dg;
    if (at.warp == 0 && at.is_valid) {
      static_cast<T*>(call.dqkv)[at.PackedAt(shape, row)] = FromFloat<T>(dv);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      float sum = of_warps[0];
      for (int i = 1; i < kDeltaWarps; ++i) sum += of_warps[i];
      memory.dgates[token * 2] = dbeta;
      memory.dgates[token * 2 + 1] = sum;
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    carried[(r * kDeltaWarps + at.warp) * kColumns + at.lane] = dstate[r];
  }
}

// A warp sums the gradient of one normalised query or key over its value heads and their columns,
// and from it computes the gradient of the query or key before normalisation.
template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    DeltaKeyGradient(GatedDeltaRuleBackwardCall call, DeltaTokens tokens, ChunkPlace chunk,
                     const float* dkeys, int64_t state_rows) {
  const DeltaNetShape& shape = call.forward.shape;
  const int64_t item = (int64_t{blockIdx.x} * kMapThreads + threadIdx.x) / 32;
  if (item >= chunk.sequences * chunk.tokens * 2 * shape.key_heads) return;
  const int64_t lane = threadIdx.x % 32;
  const int64_t key_head = item % shape.key_heads;
  const int64_t which = item / shape.key_heads % 2;
  const int64_t token = item / (2 * shape.key_heads) % chunk.tokens;
  const int64_t sequence = item / (2 * shape.key_heads) / chunk.tokens;
  const int64_t row = chunk.RowOf(shape, chunk.first_sequence + sequence, token);
  const int64_t group = shape.value_heads / shape.key_heads * Slices(shape);
  const int64_t first_block = (sequence * shape.key_heads + key_head) * group;
  const int64_t column =
      row * shape.packed_dim() + (which * shape.key_heads + key_head) * shape.key_dim;
  const T* const x = static_cast<const T*>(call.forward.qkv) + column;
  const float inverse =
      tokens.inverse[row * 2 * shape.key_heads + which * shape.key_heads + key_head];
  const float scale = which == 0 ? rsqrtf(static_cast<float>(shape.key_dim)) : 1.0f;
  constexpr int kPerLane = static_cast<int>(kMostKeyDim / 32);
  float gradient[kPerLane];
  float along = 0.0f;
#pragma unroll
  for (int n = 0; n < kPerLane; ++n) {
    const int64_t i = n * 32 + lane;
    gradient[n] = 0.0f;
    if (i >= shape.key_dim) continue;
    for (int64_t b = 0; b < group; ++b) {
      gradient[n] +=
          dkeys[(((first_block + b) * kDeltaChunk + token) * 2 + which) * state_rows + i];
    }
    along += gradient[n] * ToFloat(x[i]) * inverse;
  }
  along = WarpSum(along);
  T* const dx = static_cast<T*>(call.dqkv) + column;
#pragma unroll
  for (int n = 0; n < kPerLane; ++n) {
    const int64_t i = n * 32 + lane;
    if (i >= shape.key_dim) continue;
    dx[i] = FromFloat<T>(inverse * scale * (gradient[n] - ToFloat(x[i]) * inverse * along));
  }
}

// A thread computes the gradients of b and a of one value head, and its summands of those of
// log_decay and dt_bias, `sums` [rows, 2 * value_heads].
template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    DeltaGateGradient(GatedDeltaRuleBackwardCall call, DeltaTokens tokens, ChunkPlace chunk,
                      const float* dgates, float* sums) {
  const DeltaNetShape& shape = call.forward.shape;
  const int64_t heads = shape.value_heads;
  for (const int64_t item : ItemsOfThread(chunk.sequences * chunk.tokens * heads)) {
    const int64_t head = item % heads;
    const int64_t token = item / heads % chunk.tokens;
    const int64_t sequence = item / heads / chunk.tokens;
    const int64_t row = chunk.RowOf(shape, chunk.first_sequence + sequence, token);
    const int64_t first_block = (sequence * heads + head) * Slices(shape);
    float dbeta = 0.0f;
    float dg = 0.0f;
    for (int64_t b = 0; b < Slices(shape); ++b) {
      const float* const from = dgates + ((first_block + b) * kDeltaChunk + token) * 2;
      dbeta += from[0];
      dg += from[1];
    }
    const DeltaGates gates = tokens.gates[row * heads + head];
    const float da = dg * gates.dg_da;
    T* const to = static_cast<T*>(call.dgates) + row * 2 * heads + head;
    to[0] = FromFloat<T>(dbeta * gates.beta * (1.0f - gates.beta));
    to[heads] = FromFloat<T>(da);
    sums[row * 2 * heads + head] = dg * gates.g;
    sums[row * 2 * heads + heads + head] = da;
  }
}

// Computes the gradients of a chunk of some sequences.
template <int kRows>
absl::Status LaunchChunk(const GatedDeltaRuleBackwardCall& call, const DeltaTokens& tokens,
                         const ChunkPlace& place, const ChunkMemory& kept, float* sums,
                         const LaunchTarget& target) {
  const DeltaNetShape& shape = call.forward.shape;
  const int64_t places = place.sequences * place.tokens;
  return DispatchType(call.forward.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(
        ZEROTH_LAUNCH((DeltaChunkBackward<kRows, T>),
                      Blocks(place.sequences * shape.value_heads * Slices(shape), kDeltaThreads),
                      target.stream, call, tokens, place, kept));
    ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(
        DeltaKeyGradient<T>, WarpPerRowShape(places * 2 * shape.key_heads, kMapThreads / 32),
        target.stream, call, tokens, place, static_cast<const float*>(kept.dkeys),
        int64_t{kRows * kDeltaWarps}));
    return ZEROTH_MAP(DeltaGateGradient<T>, places * shape.value_heads, target, call, tokens, place,
                      static_cast<const float*>(kept.dgates), sums);
  });
}

// Hands out the floats of one block of memory.
struct Floats {
  float* next;
  float* Take(int64_t count) {
    float* const taken = next;
    next += count;
    return taken;
  }
};

absl::Status GatedDeltaRuleBackward(const GatedDeltaRuleBackwardCall& call, CudaKernels& kernels) {
  const DeltaNetShape& shape = call.forward.shape;
  const LaunchTarget& target = kernels.target();
  const int64_t rows = shape.batch * shape.seq;
  const int64_t heads = shape.value_heads;
  return DispatchRows(shape.key_dim, [&](auto rows_of_thread) -> absl::Status {
    constexpr int kRows = rows_of_thread();
    constexpr int64_t kStateRows = kRows * kDeltaWarps;
    const int64_t at_once = SequencesAtOnce(shape);
    const int64_t blocks = at_once * heads * Slices(shape);
    const int64_t floats = DeltaTokenFloats(shape) + DeltaBlockFloats(shape) + rows * 2 * heads +
                           RowPieces(rows) * heads;
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> memory,
                            kernels.Scratch(static_cast<size_t>(floats) * sizeof(float)));
    Floats scratch{static_cast<float*>(memory->data())};
    float* const of_tokens = scratch.Take(DeltaTokenFloats(shape));
    DeltaTokens tokens = {};
    ChunkMemory kept;
    kept.dstates = scratch.Take(blocks * kStateRows * kColumns);
    kept.decayed = scratch.Take(blocks * kDeltaChunk * kStateRows * kColumns);
    kept.missed = scratch.Take(blocks * kDeltaChunk * kColumns);
    kept.delta = scratch.Take(blocks * kDeltaChunk * kColumns);
    kept.dkeys = scratch.Take(blocks * kDeltaChunk * 2 * kStateRows);
    kept.dgates = scratch.Take(blocks * kDeltaChunk * 2);
    float* const sums = scratch.Take(rows * 2 * heads);
    float* const pieces = scratch.Take(RowPieces(rows) * heads);
    if (rows > 0) {
      ZEROTH_RETURN_IF_ERROR(ComputeDeltaTokens(call.forward, of_tokens, target, tokens));
      // Once for all sequences: a sequence's first token (IsFirst) leaves zeros.
      ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
          kept.dstates, 0, static_cast<size_t>(blocks * kStateRows * kColumns) * sizeof(float),
          target.stream));
    }
    for (int64_t first = 0; rows > 0 && first < shape.batch; first += at_once) {
      ChunkPlace place{first, std::min(at_once, shape.batch - first), 0, 0};
      for (place.chunk = shape.chunks() - 1; place.chunk >= 0; --place.chunk) {
        place.tokens = std::min(kDeltaChunk, shape.seq - place.chunk * kDeltaChunk);
        ZEROTH_RETURN_IF_ERROR(LaunchChunk<kRows>(call, tokens, place, kept, sums, target));
      }
    }
    if (call.dlog_decay != nullptr) {
      ZEROTH_RETURN_IF_ERROR(ColumnSum(rows, heads, 2 * heads, DType::kFloat32, sums,
                                       call.accumulate_dlog_decay, call.grad_dtype, call.dlog_decay,
                                       pieces, target));
    }
    if (call.ddt_bias == nullptr) return absl::OkStatus();
    return ColumnSum(rows, heads, 2 * heads, DType::kFloat32, sums + heads,
                     call.accumulate_ddt_bias, call.grad_dtype, call.ddt_bias, pieces, target);
  });
}
const OnCuda<GatedDeltaRuleBackward> gated_delta_rule_backward;

}  // namespace
}  // namespace zeroth::cuda
