// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/gemm_rate.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth {
namespace {

constexpr int64_t kSmallest = 1024;  // reaches full speed on one core
constexpr int64_t kLargest = 16384;
// Seconds of a product; shorter ones measure the overhead of launching.
constexpr double kLongEnough = 2e-3;
constexpr int kRounds = 15;  // the machine may be busy in some
constexpr double kRoundSeconds = 20e-3;

// Returns [size, size] of values like those of weights: zeros take less power, and a device that is
// limited by power would multiply them faster.
absl::StatusOr<Tensor> RandomMatrix(Device& device, Kernels& kernels, int64_t size, DType dtype) {
  const int64_t block = std::min(size * size, int64_t{1} << 20);
  std::vector<float> values(static_cast<size_t>(block));
  CounterRng(/*seed=*/1, "GEMM rate").FillNormal(0, 0.02f, absl::MakeSpan(values));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor random,
      Tensor::FromHost<float>(device, Shape({block}), values, MemoryCategory::kWorkspace));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor matrix, Tensor::Empty(device, Shape({size, size}), dtype,
                                                             MemoryCategory::kWorkspace));
  for (int64_t at = 0; at < size * size; at += block) {
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(kernels, random, matrix.View(at, Shape({block}))));
  }
  return matrix;
}

// Returns the elementwise maximum over the ranks.
absl::StatusOr<std::vector<double>> Max(Communicator& world, Device& device,
                                        const std::vector<double>& values) {
  if (world.size() == 1) return values;
  const std::vector<float> mine(values.begin(), values.end());
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor all, Tensor::FromHost<float>(device, Shape({static_cast<int64_t>(mine.size())}),
                                                mine, MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(
      world.AllReduce(all, ReduceOp::kMax, device.compute_stream(), "GEMM rate"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> result, all.ToHost<float>());
  return std::vector<double>(result.begin(), result.end());
}

// Makes matrices [size, size] on every rank; nullopt on all ranks if one has no memory for them.
absl::StatusOr<std::optional<GemmArgs>> MakeProduct(Communicator& world, Device& device,
                                                    Kernels& kernels, int64_t size, DType dtype) {
  GemmArgs gemm;
  std::vector<double> lacking = {0};
  for (Matrix* matrix : {&gemm.a, &gemm.b, &gemm.c}) {
    const absl::StatusOr<Tensor> tensor = RandomMatrix(device, kernels, size, dtype);
    if (absl::IsResourceExhausted(tensor.status())) {
      lacking = {1};
      break;
    }
    ZEROTH_RETURN_IF_ERROR(tensor.status());
    *matrix = *tensor;
  }
  // All ranks must compute at once, or none.
  ZEROTH_ASSIGN_OR_RETURN(lacking, Max(world, device, lacking));
  if (lacking[0] > 0) return std::optional<GemmArgs>();
  return std::optional<GemmArgs>(std::move(gemm));
}

}  // namespace

absl::StatusOr<double> MedianSeconds(Communicator& world, Device& device,
                                     const std::function<absl::Status()>& work, int rounds,
                                     int times) {
  Stream& stream = device.compute_stream();
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    if (world.size() > 1) ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "measuring"));
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) ZEROTH_RETURN_IF_ERROR(work());
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds.push_back(std::max(taken.count(), 1e-9) / times);
  }
  ZEROTH_ASSIGN_OR_RETURN(seconds, Max(world, device, seconds));
  const auto middle = seconds.begin() + rounds / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

absl::StatusOr<double> MeasureGemmRate(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype) {
  double rate = 0;
  for (int64_t size = kSmallest; size <= kLargest; size *= 2) {
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<GemmArgs> gemm,
                            MakeProduct(world, device, kernels, size, dtype));
    if (!gemm.has_value()) break;
    const auto multiply = [&] { return kernels::Gemm(kernels, *gemm); };
    // The first product makes one-time allocations.
    ZEROTH_RETURN_IF_ERROR(MedianSeconds(world, device, multiply, 1, 1).status());
    ZEROTH_ASSIGN_OR_RETURN(double seconds, MedianSeconds(world, device, multiply, 3, 1));
    // All ranks have the same seconds, and so take the same branch.
    const bool is_last = seconds >= kLongEnough || size == kLargest;
    if (is_last) {
      const auto products = static_cast<int>(std::clamp(kRoundSeconds / seconds, 1.0, 100.0));
      ZEROTH_ASSIGN_OR_RETURN(seconds, MedianSeconds(world, device, multiply, kRounds, products));
    }
    const auto edge = static_cast<double>(size);
    rate = 2.0 * edge * edge * edge * world.size() / seconds;
    if (is_last) break;
  }
  return rate;
}

}  // namespace zeroth
