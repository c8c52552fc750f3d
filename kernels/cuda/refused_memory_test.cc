// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

TEST(RefusedMemoryTest, ACallThatGetsNoScratchLeavesItsStreamUsable) {
  ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cuda", DeviceOptions());
  device->BindThread();
  for (const bool on_compute : {true, false}) {
    std::unique_ptr<Stream> own;
    if (!on_compute) own = *device->CreateStream("side");
    Stream& stream = on_compute ? device->compute_stream() : *own;
    const std::unique_ptr<Kernels> kernels = *KernelRegistry::Create(*device, stream);
    constexpr int64_t kRows = 300;
    constexpr int64_t kColumns = 70;
    const Tensor dy = *Tensor::FromHost<float>(*device, Shape({kRows, kColumns}),
                                               std::vector<float>(kRows * kColumns, 1.0f),
                                               MemoryCategory::kWorkspace);
    const Tensor dbias = *Tensor::FromHost<float>(
        *device, Shape({kColumns}), std::vector<float>(kColumns, 5.0f), MemoryCategory::kWorkspace);
    device->allocator().set_limit(device->allocator().stats().total.current_bytes);
    const absl::Status refused = kernels::BiasGradient(*kernels, dy, dbias, /*accumulate=*/true);
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_EQ(stream.status(), absl::OkStatus());

    device->allocator().set_limit(0);
    EXPECT_EQ(kernels::BiasGradient(*kernels, dy, dbias, /*accumulate=*/true), absl::OkStatus());
    EXPECT_EQ(stream.Synchronize(), absl::OkStatus());
    EXPECT_EQ(*dbias.ToHost<float>(), std::vector<float>(kColumns, 5.0f + kRows));
  }
}

}  // namespace
}  // namespace zeroth
