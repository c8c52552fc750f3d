// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Recordings through the interface that trainers see.

#include "zeroth/core/device/cuda/cuda_recording.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"

namespace zeroth::cuda {
namespace {

using Bytes = std::vector<uint8_t>;

class CudaRecordingTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
    side_ = *device_->CreateStream("side");
  }

  Stream& compute() { return device_->compute_stream(); }
  std::shared_ptr<Buffer> Allocate(size_t bytes) {
    return *device_->allocator().Allocate(bytes, MemoryCategory::kWorkspace);
  }
  void Fill(const Buffer& buffer, uint8_t value) {
    const Bytes values(buffer.bytes(), value);
    ASSERT_TRUE(device_->CopyFromHost(buffer.data(), values.data(), values.size(), compute()).ok());
  }
  Bytes Read(const Buffer& buffer) {
    Bytes values(buffer.bytes());
    EXPECT_TRUE(device_->CopyToHost(values.data(), buffer.data(), values.size(), compute()).ok());
    EXPECT_TRUE(compute().Synchronize().ok());
    return values;
  }
  void Copy(const Buffer& from, const Buffer& to, Stream& stream) {
    ASSERT_TRUE(device_->Copy(to.data(), from.data(), from.bytes(), stream).ok());
  }
  std::unique_ptr<Recording> End() {
    absl::StatusOr<std::unique_ptr<Recording>> recording = device_->EndRecording();
    EXPECT_TRUE(recording.ok()) << recording.status();
    return recording.ok() ? *std::move(recording) : nullptr;
  }
  int64_t Reserved() const { return device_->allocator().stats().reserved_bytes; }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> side_;
};

constexpr size_t kBytes = 3000;

// Copies in → side stream → out, through memory that was allocated in the recording.
TEST_F(CudaRecordingTest, PlaysWhatAllStreamsWereGivenWithTheDataOfTheTime) {
  const auto in = Allocate(kBytes);
  const auto out = Allocate(kBytes);
  Fill(*in, 1);
  Fill(*out, 2);
  ASSERT_TRUE(device_->BeginRecording().ok());
  {
    const auto between = Allocate(kBytes);
    Copy(*in, *between, compute());
    ASSERT_TRUE(side_->Wait(*compute().Record()).ok());
    CudaStream::From(*side_).Retain(between);
    Copy(*between, *out, *side_);
  }
  const std::unique_ptr<Recording> recording = End();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(Read(*out), Bytes(kBytes, 2)) << "recorded, not run";
  for (const uint8_t value : {7, 8, 9}) {
    Fill(*in, value);
    const auto other = Allocate(kBytes);  // must not be memory of the recording
    Fill(*other, 77);
    ASSERT_TRUE(recording->Play(compute()).ok());
    EXPECT_EQ(Read(*out), Bytes(kBytes, value));
    EXPECT_EQ(Read(*other), Bytes(kBytes, 77));
  }
}

TEST_F(CudaRecordingTest, EventsFromBeforeNeedNoWaitingInside) {
  const auto from = Allocate(kBytes);
  const auto to = Allocate(kBytes);
  Fill(*from, 5);
  const std::shared_ptr<Event> before = *compute().Record();
  ASSERT_TRUE(device_->BeginRecording().ok());
  EXPECT_TRUE(before->IsDone());
  EXPECT_TRUE(before->Synchronize().ok());
  EXPECT_TRUE(side_->Wait(before).ok());
  Copy(*from, *to, *side_);
  const std::unique_ptr<Recording> recording = End();
  ASSERT_NE(recording, nullptr);
  ASSERT_TRUE(recording->Play(compute()).ok());
  EXPECT_EQ(Read(*to), Bytes(kBytes, 5));
}

TEST_F(CudaRecordingTest, EventsFromInsideStandForTheEndOfTheLatestPlay) {
  const auto from = Allocate(kBytes);
  const auto to = Allocate(kBytes);
  const auto copy = Allocate(kBytes);
  ASSERT_TRUE(device_->BeginRecording().ok());
  Copy(*from, *to, compute());
  const std::shared_ptr<Event> inside = *compute().Record();
  const std::unique_ptr<Recording> recording = End();
  ASSERT_NE(recording, nullptr);
  EXPECT_FALSE(inside->IsDone());
  EXPECT_EQ(inside->Synchronize().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(side_->Wait(inside).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(side_->status().ok()) << "nothing has happened to the stream";
  for (const uint8_t value : {3, 4}) {
    Fill(*from, value);
    ASSERT_TRUE(recording->Play(compute()).ok());
    ASSERT_TRUE(side_->Wait(inside).ok());
    Copy(*to, *copy, *side_);
    ASSERT_TRUE(compute().Wait(*side_->Record()).ok());
    EXPECT_EQ(Read(*copy), Bytes(kBytes, value));
    EXPECT_TRUE(inside->Synchronize().ok());
    EXPECT_TRUE(inside->IsDone());
  }
  // And inside of a further recording: that began with an idle device.
  ASSERT_TRUE(device_->BeginRecording().ok());
  EXPECT_TRUE(side_->Wait(inside).ok());
  EXPECT_NE(End(), nullptr);
}

TEST_F(CudaRecordingTest, WhatCannotBeRecordedIsRefusedAndHarmsNothing) {
  const auto memory = Allocate(kBytes);
  Bytes host(kBytes);
  const std::shared_ptr<Device> other = *DeviceRegistry::Create("cuda", DeviceOptions());
  const std::shared_ptr<Event> elsewhere = *other->compute_stream().Record();
  ASSERT_TRUE(device_->BeginRecording().ok());
  const std::shared_ptr<Event> inside = *compute().Record();
  const absl::Status refused[] = {
      device_->CopyFromHost(memory->data(), host.data(), kBytes, compute()),
      device_->CopyToHost(host.data(), memory->data(), kBytes, *side_),
      compute().Synchronize(),
      side_->Synchronize(),
      inside->Synchronize(),
      compute().RecordTime().status(),
      device_->CreateStream("late").status(),
      compute().Wait(elsewhere),
      device_->BeginRecording(),
  };
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
  EXPECT_NE(refused[0].ToString().find("stream 'compute' is being recorded"), std::string::npos)
      << refused[0];
  ASSERT_TRUE(device_->FillZero(memory->data(), kBytes, *side_).ok());
  const std::unique_ptr<Recording> recording = End();
  ASSERT_NE(recording, nullptr);
  Fill(*memory, 1);
  ASSERT_TRUE(recording->Play(compute()).ok());
  EXPECT_EQ(Read(*memory), Bytes(kBytes, 0));
  EXPECT_EQ(device_->EndRecording().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CudaRecordingTest, MemoryIsTheRecordingsUntilItGoes) {
  const size_t bytes = CachingAllocator::kLargeSegmentBytes;
  Allocate(bytes);
  const int64_t before = Reserved();
  auto used = Allocate(kBytes);
  ASSERT_TRUE(device_->BeginRecording().ok());
  void* inside = nullptr;
  {
    const auto scratch = Allocate(bytes);
    inside = scratch->data();
    Copy(*used, *scratch, compute());
    // More than there was: the device may be asked for memory while it records.
    const auto more = Allocate(bytes);
    Copy(*scratch, *more, compute());
  }
  std::unique_ptr<Recording> recording = End();
  ASSERT_NE(recording, nullptr);
  used = nullptr;
  const MemoryStats stats = device_->allocator().stats();
  EXPECT_EQ(stats[MemoryCategory::kWorkspace].current_bytes, static_cast<int64_t>(2 * bytes));
  EXPECT_GE(stats.reserved_bytes, before + static_cast<int64_t>(bytes));
  device_->allocator().Trim();
  ASSERT_TRUE(recording->Play(compute()).ok());
  EXPECT_NE(Allocate(bytes)->data(), inside);
  recording = nullptr;
  EXPECT_EQ(device_->allocator().stats().total.current_bytes, 0);
  device_->allocator().Trim();
  EXPECT_EQ(Reserved(), 0);
}

TEST_F(CudaRecordingTest, ADroppedRecordingLeavesTheDeviceAsItWas) {
  const auto memory = Allocate(kBytes);
  Fill(*memory, 6);
  ASSERT_TRUE(device_->BeginRecording().ok());
  ASSERT_TRUE(device_->FillZero(memory->data(), kBytes, *side_).ok());
  EXPECT_NE(End(), nullptr);
  EXPECT_EQ(Read(*memory), Bytes(kBytes, 6));
  EXPECT_TRUE(side_->Synchronize().ok());
  EXPECT_NE(*device_->CreateStream("another"), nullptr);
}

TEST_F(CudaRecordingTest, ARecordingPlaysOnAnyStreamOfItsDeviceThatIsNotRecorded) {
  const auto memory = Allocate(kBytes);
  Fill(*memory, 6);
  ASSERT_TRUE(device_->BeginRecording().ok());
  ASSERT_TRUE(device_->FillZero(memory->data(), kBytes, compute()).ok());
  const std::unique_ptr<Recording> recording = End();
  ASSERT_NE(recording, nullptr);
  ASSERT_TRUE(side_->Wait(*compute().Record()).ok());
  ASSERT_TRUE(recording->Play(*side_).ok());
  ASSERT_TRUE(side_->Synchronize().ok());
  EXPECT_EQ(Read(*memory), Bytes(kBytes, 0));
  ASSERT_TRUE(device_->BeginRecording().ok());
  EXPECT_EQ(recording->Play(compute()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(End(), nullptr);
}

}  // namespace
}  // namespace zeroth::cuda
