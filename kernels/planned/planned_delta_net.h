// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The cost of a gated DeltaNet's operations, for planned_costs.cc.

#pragma once

#include <algorithm>
#include <cstdint>

#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/delta_net_scratch.h"
#include "zeroth/kernels/planned/planned_kernels.h"

namespace zeroth {

inline constexpr int64_t kBytesOfFloat = sizeof(float);

inline double DeltaNetBytes(CallTensors tensors) {
  double bytes = 0;
  for (const Tensor* tensor : tensors) bytes += static_cast<double>(tensor->bytes());
  return bytes;
}

// RowPieces of kernels/cuda/launch_shapes.h.
inline int64_t GpuRowPieces(int64_t rows) { return std::clamp<int64_t>((rows + 63) / 64, 1, 128); }

// On a GPU the weight's gradient has two separate kernels: one reads x and dy again and writes the
// sums of pieces, the other adds these.
inline KernelCost CostOf(const ShortConvolutionBackwardCall& call, const PlannedKernels& kernels,
                         CallTensors tensors) {
  const ShortConvolutionCall& forward = call.forward;
  const int64_t rows = forward.batch * forward.seq;
  const int64_t weights = call.dweight == nullptr ? 0 : forward.channels * forward.width;
  const int64_t pieces = kernels.is_gpu() ? GpuRowPieces(rows) : forward.batch;
  KernelCost cost{.bytes = DeltaNetBytes(tensors), .scratch = pieces * weights * kBytesOfFloat};
  if (kernels.is_gpu() && weights > 0) {
    cost.bytes += 2.0 * static_cast<double>(cost.scratch) +
                  2.0 * static_cast<double>(rows * forward.channels) *
                      static_cast<double>(SizeOf(forward.dtype));
    cost.launches = 3;
  }
  return cost;
}

// Three passes over a head's state for each token: both matmuls with it, and its update. Forward
// keeps the state in registers, or in the cache of a CPU.
inline double DeltaRuleFlops(const DeltaNetShape& shape) {
  return 6.0 * static_cast<double>(shape.batch * shape.seq * shape.value_heads) *
         static_cast<double>(shape.key_dim * shape.value_dim);
}

// Threads, each with its scratch, divide sequences and key heads.
inline int64_t DeltaThreads(const DeltaNetShape& shape, const PlannedKernels& kernels) {
  return std::min<int64_t>(shape.batch * shape.key_heads, kernels.threads());
}

inline KernelCost CostOf(const GatedDeltaRuleCall& call, const PlannedKernels& kernels,
                         CallTensors tensors) {
  KernelCost cost{.flops = DeltaRuleFlops(call.shape),
                  .flops_per_second = kernels.FlopsPerSecond(DType::kFloat32),
                  .bytes = DeltaNetBytes(tensors)};
  if (!kernels.is_gpu()) {
    cost.scratch =
        DeltaThreads(call.shape, kernels) * cpu::DeltaForwardFloats(call.shape) * kBytesOfFloat;
    return cost;
  }
  // Lengths and gates, written and read.
  cost.scratch = cuda::DeltaTokenFloats(call.shape) * kBytesOfFloat;
  cost.bytes += 2.0 * static_cast<double>(cost.scratch);
  cost.launches = 3;
  return cost;
}

inline KernelCost CostOf(const GatedDeltaRuleBackwardCall& call, const PlannedKernels& kernels,
                         CallTensors tensors) {
  const DeltaNetShape& shape = call.forward.shape;
  // Backward recomputes the states, and has two matmuls for each of forward's.
  KernelCost cost{.flops = 3 * DeltaRuleFlops(shape),
                  .flops_per_second = kernels.FlopsPerSecond(DType::kFloat32),
                  .bytes = DeltaNetBytes(tensors)};
  if (!kernels.is_gpu()) {
    cost.scratch = (DeltaThreads(shape, kernels) * cpu::DeltaBackwardFloats(shape) +
                    2 * shape.batch * shape.value_heads) *
                   kBytesOfFloat;
    return cost;
  }
  const int64_t rows = shape.batch * shape.seq;
  cost.scratch = (cuda::DeltaTokenFloats(shape) + cuda::DeltaBlockFloats(shape) +
                  (2 * rows + GpuRowPieces(rows)) * shape.value_heads) *
                 kBytesOfFloat;
  if (rows == 0) return cost;
  // Each chunk writes and reads its block's scratch anew, from memory: the states of its tokens do
  // not fit into a cache.
  const int64_t floats = cuda::DeltaTokenFloats(shape) + 2 * rows * shape.value_heads +
                         cuda::DeltaKeptFloats(shape, shape.batch, shape.chunks(), shape.seq);
  cost.bytes += 2.0 * static_cast<double>(floats * kBytesOfFloat);
  const int64_t at_once = cuda::SequencesAtOnce(shape);
  const int64_t groups = (shape.batch + at_once - 1) / at_once;
  const int sums = (call.dlog_decay == nullptr ? 0 : 2) + (call.ddt_bias == nullptr ? 0 : 2);
  // Two kernels over all tokens, a fill, three kernels for each chunk, and two for each sum.
  cost.launches = static_cast<int>(3 + 3 * shape.chunks() * groups) + sums;
  return cost;
}

}  // namespace zeroth
