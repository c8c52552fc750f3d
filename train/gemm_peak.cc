// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/gemm_peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Large enough for full speed on a core, small enough for a start-up measurement.
constexpr int64_t kSize = 1024;
constexpr int kRounds = 20;  // about 10 ms each on a core; the machine may be busy in some

}  // namespace

absl::StatusOr<double> MeasureGemmPeak(Communicator& world, Device& device, Kernels& kernels) {
  GemmArgs gemm;
  for (Matrix* matrix : {&gemm.a, &gemm.b, &gemm.c}) {
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor tensor,
        Tensor::Zeros(device, Shape({kSize, kSize}), DType::kFloat32, MemoryCategory::kWorkspace));
    *matrix = tensor;
  }
  Stream& stream = device.compute_stream();
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (world.size() > 1) ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "GEMM peak"));
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const auto start = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(kernels.Gemm(gemm));
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSize * kSize * kSize / std::max(seconds.count(), 1e-9));
  }
  if (world.size() == 1) return best;
  const std::vector<float> mine = {static_cast<float>(best)};
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, Tensor::FromHost<float>(device, Shape({1}), mine,
                                                                    MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(world.AllReduce(sum, ReduceOp::kSum, stream, "GEMM peak"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> total, sum.ToHost<float>());
  return static_cast<double>(total[0]);
}

}  // namespace zeroth
