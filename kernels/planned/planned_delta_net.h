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

inline KernelCost CostOf(const ShortConvolutionBackwardCall& call, const PlannedKernels& kernels,
                         CallTensors tensors) {
  const ShortConvolutionCall& forward = call.forward;
  const int64_t weights = call.dweight == nullptr ? 0 : forward.channels * forward.width;
  const int64_t pieces =
      kernels.is_gpu() ? GpuRowPieces(forward.batch * forward.seq) : forward.batch;
  return {.bytes = DeltaNetBytes(tensors), .scratch = pieces * weights * kBytesOfFloat};
}

// Three passes over a head's state for each token: both products with it, and its update. A state
// stays in fast memory, so its bytes do not count.
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
  cost.scratch =
      (kernels.is_gpu() ? cuda::DeltaTokenFloats(call.shape)
                        : DeltaThreads(call.shape, kernels) * cpu::DeltaForwardFloats(call.shape)) *
      kBytesOfFloat;
  return cost;
}

inline KernelCost CostOf(const GatedDeltaRuleBackwardCall& call, const PlannedKernels& kernels,
                         CallTensors tensors) {
  const DeltaNetShape& shape = call.forward.shape;
  // The states again, and two products for each of forward's.
  KernelCost cost{.flops = 3 * DeltaRuleFlops(shape),
                  .flops_per_second = kernels.FlopsPerSecond(DType::kFloat32),
                  .bytes = DeltaNetBytes(tensors)};
  const int64_t rows = shape.batch * shape.seq;
  const int64_t floats = kernels.is_gpu()
                             ? cuda::DeltaTokenFloats(shape) + cuda::DeltaBlockFloats(shape) +
                                   (2 * rows + GpuRowPieces(rows)) * shape.value_heads
                             : DeltaThreads(shape, kernels) * cpu::DeltaBackwardFloats(shape) +
                                   2 * shape.batch * shape.value_heads;
  cost.scratch = floats * kBytesOfFloat;
  return cost;
}

}  // namespace zeroth
