// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/device_clock.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <optional>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

namespace zeroth::cuda {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Host and device run by one clock, which the test moves.
nanoseconds now{0};

DeviceClock::HostTime HostNow() { return DeviceClock::HostTime(now); }

class DeviceClockTest : public testing::Test {
 protected:
  void SetUp() override {
    now = nanoseconds(0);
    Move(hours(1));
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  void TearDown() override {
    ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    emulation::SetDeviceClock(std::nullopt);
  }

  static void Move(nanoseconds time) {
    now += time;
    emulation::SetDeviceClock(now);
  }

  // The clock's time of an event that happens now.
  double Seconds() {
    const auto mark = clock_.Latest();
    EXPECT_TRUE(mark.ok()) << mark.status();
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
    const auto time = (*mark)->SecondsAt(event);
    EXPECT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    return *time;
  }

  DeviceClock clock_{0, &HostNow};
  cudaStream_t stream_ = nullptr;
};

TEST_F(DeviceClockTest, TellsMicrosecondsAfterADay) {
  EXPECT_EQ(Seconds(), 0);
  Move(hours(25));
  const double first = Seconds();
  EXPECT_NEAR(first, 25 * 3600, 0.01);
  for (int i = 1; i <= 10; ++i) {
    Move(microseconds(3));
    EXPECT_NEAR(Seconds() - first, i * 3e-6, 0.5e-6) << i;
  }
  // Across marks, too.
  Move(seconds(6));
  EXPECT_NEAR(Seconds() - first, 6 + 30e-6, 1e-6);
}

TEST_F(DeviceClockTest, LosesNothingOverADayOfEvents) {
  const double first = Seconds();
  for (int i = 0; i < 24 * 3600 / 5; ++i) {
    Move(seconds(5));
    Seconds();
  }
  EXPECT_NEAR(Seconds() - first, 24 * 3600, 1e-3);
}

}  // namespace
}  // namespace zeroth::cuda
