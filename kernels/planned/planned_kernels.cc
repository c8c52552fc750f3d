// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/planned/planned_kernels.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// cuBLASLt's workspace. A stream's kernels allocate it at their first matmul and keep it.
constexpr int64_t kGpuMatmulWorkspace = int64_t{32} << 20;

int64_t Pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace

double PlannedKernels::FlopsPerSecond(DType dtype) const {
  const Machine& on = machine();
  const bool fp32 = dtype == DType::kFloat32;
  const bool tf32 = options().fp32_precision == Fp32Precision::kTf32;
  return device_.units() * (!fp32 ? on.bf16_flops : tf32 ? on.tf32_flops : on.fp32_flops);
}

double PlannedKernels::Fill(int64_t m, int64_t n, int64_t k) const {
  const int64_t at_a_time = machine().multiprocessors;
  if (at_a_time == 0 || m == 0 || n == 0 || k == 0) return 1;
  constexpr int64_t kTile = 128;
  constexpr int64_t kLeastTerms = 512;
  const int64_t tiles = Pieces(m, kTile) * Pieces(n, kTile);
  // A matmul of few tiles splits k over the SMs that would be idle.
  const int64_t parts = std::clamp(at_a_time / tiles, int64_t{1}, Pieces(k, kLeastTerms));
  const int64_t rounds = Pieces(tiles * parts, at_a_time);
  const double of_tiles = static_cast<double>(m) * static_cast<double>(n) /
                          (static_cast<double>(tiles) * kTile * kTile);
  return of_tiles * static_cast<double>(tiles * parts) / static_cast<double>(rounds * at_a_time);
}

absl::Status PlannedKernels::Note(absl::string_view operation, const KernelCost& cost) {
  // The cost is noted before the allocations, so that a peak of memory is ascribed to this call.
  const double by_memory = cost.bytes / (machine().memory_bandwidth * device_.units());
  const double by_products = cost.flops / cost.flops_per_second;
  PlannedDevice::Add(stream(), {.label = std::string(operation),
                                .resource = Resource::kCompute,
                                .seconds = cost.hides_memory ? std::max(by_products, by_memory)
                                                             : by_products + by_memory,
                                .latency = machine().launch_seconds * cost.launches,
                                .launches = cost.launches,
                                .flops = cost.flops,
                                .memory_bytes = cost.bytes});
  const bool multiplies = cost.flops > 0;
  std::shared_ptr<Buffer> scratch;
  const auto take = [&](KernelCost::Place place, int64_t bytes) -> absl::Status {
    std::shared_ptr<Buffer>& kept = kept_[place];
    if (kept != nullptr && static_cast<int64_t>(kept->bytes()) >= bytes) return absl::OkStatus();
    kept.reset();
    ZEROTH_ASSIGN_OR_RETURN(
        kept, device_.allocator().Allocate(static_cast<size_t>(bytes), MemoryCategory::kWorkspace));
    return absl::OkStatus();
  };
  if (is_gpu() && multiplies) {
    ZEROTH_RETURN_IF_ERROR(take(KernelCost::kMatmuls, kGpuMatmulWorkspace));
  }
  if (cost.scratch > 0 && !is_gpu()) {
    ZEROTH_RETURN_IF_ERROR(take(cost.place, cost.scratch));
  } else if (cost.scratch > 0) {
    ZEROTH_ASSIGN_OR_RETURN(scratch, device_.allocator().Allocate(static_cast<size_t>(cost.scratch),
                                                                  MemoryCategory::kWorkspace));
  }
  return absl::OkStatus();
}

namespace {

const KernelRegistration registration(
    kPlannedDeviceType,
    [](Device& device, Stream& stream,
       const KernelOptions& options) -> absl::StatusOr<std::unique_ptr<Kernels>> {
      return std::make_unique<PlannedKernels>(static_cast<PlannedDevice&>(device), stream, options);
    },
    {.tf32 = true, .cudnn = true, .slow_kernels = true});

}  // namespace
}  // namespace zeroth
