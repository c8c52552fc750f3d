// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The CUDA device records events again instead of creating one for each use.

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/emulated_stream.h"
#include "zeroth/core/device/device.h"

namespace zeroth::cuda {
namespace {

TEST(EventReuseTest, EventsThatNobodyHoldsAreRecordedAgain) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cuda", DeviceOptions());
  device->BindThread();
  const std::unique_ptr<Stream> side = *device->CreateStream("side");
  const std::shared_ptr<Event> held = *side->Record();
  const int64_t before = emulation::EventsCreated();
  for (int i = 0; i < 100; ++i) {
    const std::shared_ptr<Event> first = *side->Record();
    const std::shared_ptr<Event> second = *side->Record();
    ASSERT_TRUE(device->compute_stream().Wait(second).ok());
    ASSERT_TRUE(second->Synchronize().ok());
    EXPECT_TRUE(first->IsDone());
  }
  EXPECT_EQ(emulation::EventsCreated() - before, 2);
  EXPECT_TRUE(held->IsDone());
}

}  // namespace
}  // namespace zeroth::cuda
