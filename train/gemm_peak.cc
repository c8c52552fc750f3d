// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/gemm_peak.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kSmallest = 1024;  // full speed on a core
constexpr int64_t kLargest = 16384;
// A product that is over sooner measures how fast products start.
constexpr double kLongEnough = 2e-3;
constexpr int kRounds = 20;  // the machine may be busy in some

// [size, size] of values as weights have them: zeros take less power, and a device that is limited
// by power multiplies them faster than anything real.
absl::StatusOr<Tensor> RandomMatrix(Device& device, Kernels& kernels, int64_t size, DType dtype) {
  const int64_t block = std::min(size * size, int64_t{1} << 20);
  std::vector<float> values(static_cast<size_t>(block));
  CounterRng(/*seed=*/1, "GEMM peak").FillNormal(0, 0.02f, absl::MakeSpan(values));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor random,
      Tensor::FromHost<float>(device, Shape({block}), values, MemoryCategory::kWorkspace));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor matrix, Tensor::Empty(device, Shape({size, size}), dtype,
                                                             MemoryCategory::kWorkspace));
  for (int64_t at = 0; at < size * size; at += block) {
    ZEROTH_RETURN_IF_ERROR(kernels.Cast(random, matrix.View(at, Shape({block}))));
  }
  return matrix;
}

// Seconds of the best of `rounds` products, all ranks computing at once.
absl::StatusOr<double> BestSeconds(Communicator& world, Kernels& kernels, const GemmArgs& gemm,
                                   int rounds) {
  Stream& stream = kernels.stream();
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    if (world.size() > 1) ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "GEMM peak"));
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const auto start = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(kernels.Gemm(gemm));
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, std::max(seconds.count(), 1e-9));
  }
  return best;
}

absl::StatusOr<double> Reduced(Communicator& world, Device& device, double value, ReduceOp op) {
  if (world.size() == 1) return value;
  const std::vector<float> mine = {static_cast<float>(value)};
  ZEROTH_ASSIGN_OR_RETURN(const Tensor all, Tensor::FromHost<float>(device, Shape({1}), mine,
                                                                    MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(world.AllReduce(all, op, device.compute_stream(), "GEMM peak"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> result, all.ToHost<float>());
  return static_cast<double>(result[0]);
}

// A product of matrices [size, size] on every rank; nullopt where one of them has no memory for it.
absl::StatusOr<std::optional<GemmArgs>> MakeProduct(Communicator& world, Device& device,
                                                    Kernels& kernels, int64_t size, DType dtype) {
  GemmArgs gemm;
  double lacking = 0;
  for (Matrix* matrix : {&gemm.a, &gemm.b, &gemm.c}) {
    const absl::StatusOr<Tensor> tensor = RandomMatrix(device, kernels, size, dtype);
    if (absl::IsResourceExhausted(tensor.status())) {
      lacking = 1;
      break;
    }
    ZEROTH_RETURN_IF_ERROR(tensor.status());
    *matrix = *tensor;
  }
  // What is measured is the speed of all at once.
  ZEROTH_ASSIGN_OR_RETURN(lacking, Reduced(world, device, lacking, ReduceOp::kMax));
  if (lacking > 0) return std::optional<GemmArgs>();
  return std::optional<GemmArgs>(std::move(gemm));
}

}  // namespace

absl::StatusOr<double> MeasureGemmPeak(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype) {
  double peak = 0;
  for (int64_t size = kSmallest; size <= kLargest; size *= 2) {
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<GemmArgs> gemm,
                            MakeProduct(world, device, kernels, size, dtype));
    if (!gemm.has_value()) break;
    ZEROTH_ASSIGN_OR_RETURN(const double first, BestSeconds(world, kernels, *gemm, /*rounds=*/2));
    // Every rank goes by the slowest, so that all measure the same product.
    ZEROTH_ASSIGN_OR_RETURN(const double slowest, Reduced(world, device, first, ReduceOp::kMax));
    const bool is_last = slowest >= kLongEnough || size == kLargest;
    double best = first;
    if (is_last) {
      ZEROTH_ASSIGN_OR_RETURN(best, BestSeconds(world, kernels, *gemm, kRounds));
    }
    const double flops = 2.0 * static_cast<double>(size) * static_cast<double>(size) *
                         static_cast<double>(size) / std::min(first, best);
    ZEROTH_ASSIGN_OR_RETURN(peak, Reduced(world, device, flops, ReduceOp::kSum));
    if (is_last) break;
  }
  return peak;
}

}  // namespace zeroth
