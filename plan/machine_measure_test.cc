// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/machine_measure.h"

#include <memory>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"

namespace zeroth {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kPlenty = int64_t{1} << 30;

// Limits the memory of the two ranks, and expects that both know the rate, or neither.
absl::Status ExpectRate(int64_t limit_of_first, int64_t limit_of_second, bool is_known) {
  return RunLocalRanks(kRanks, [&](Communicator& world) -> absl::Status {
    DeviceOptions options;
    options.memory_limit = world.rank() == 0 ? limit_of_first : limit_of_second;
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", options));
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                            KernelRegistry::Create(*device, device->compute_stream()));
    ZEROTH_ASSIGN_OR_RETURN(const double rate,
                            MeasureGemmRate(world, *device, *kernels, DType::kFloat32));
    EXPECT_EQ(rate > 0, is_known) << "rank " << world.rank() << ": " << rate;
    EXPECT_EQ(device->allocator().stats().total.current_bytes, 0);
    return absl::OkStatus();
  });
}

TEST(MeasureGemmRateTest, IsUnknownOnAllRanksWhereOneHasNoMemoryForIt) {
  EXPECT_EQ(ExpectRate(kPlenty, kPlenty, /*is_known=*/true), absl::OkStatus());
  // Room for two of three matrices.
  EXPECT_EQ(ExpectRate(kPlenty, int64_t{9} << 20, /*is_known=*/false), absl::OkStatus());
  EXPECT_EQ(ExpectRate(1 << 10, kPlenty, /*is_known=*/false), absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
