// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/testing/missing_device.h"

namespace zeroth::cuda {
namespace {

using Values = std::vector<int>;
constexpr size_t kCount = 100003;
constexpr size_t kBytes = kCount * sizeof(int);

class PinnedStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
    store_ = *device_->CreateOffloadStore(OffloadStoreOptions());
  }

  std::shared_ptr<Buffer> Allocate() {
    return *device_->allocator().Allocate(kBytes, MemoryCategory::kWorkspace);
  }
  Stream& compute() { return device_->compute_stream(); }
  Values ToHost(const Buffer& buffer) {
    Values values(kCount);
    EXPECT_EQ(device_->CopyToHost(values.data(), buffer.data(), kBytes, compute()),
              absl::OkStatus());
    EXPECT_EQ(compute().Synchronize(), absl::OkStatus());
    return values;
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<OffloadStore> store_;
};

TEST_F(PinnedStoreTest, IsZeroAtFirstAndOutsideOfTheAccount) {
  const std::shared_ptr<OffloadRegion> region = *store_->Reserve(kBytes);
  EXPECT_EQ(store_->stats().reserved_bytes, static_cast<int64_t>(kBytes));
  EXPECT_EQ(device_->allocator().stats().total.peak_bytes, 0);
  const auto buffer = Allocate();
  ASSERT_EQ(region->Read(0, buffer->data(), kBytes, compute()), absl::OkStatus());
  EXPECT_EQ(ToHost(*buffer), Values(kCount, 0));
}

TEST_F(PinnedStoreTest, WhatOneStreamWritesAnotherReads) {
  const std::shared_ptr<OffloadRegion> region = *store_->Reserve(2 * kBytes);
  Values values(kCount);
  std::iota(values.begin(), values.end(), 3);
  const auto from = Allocate();
  const auto to = Allocate();
  ASSERT_EQ(device_->CopyFromHost(from->data(), values.data(), kBytes, compute()),
            absl::OkStatus());
  const std::unique_ptr<Stream> writer = *device_->CreateStream("write");
  const std::unique_ptr<Stream> reader = *device_->CreateStream("read");
  ASSERT_EQ(writer->Wait(*compute().Record()), absl::OkStatus());
  ASSERT_EQ(region->Write(1000, from->data(), kBytes, *writer), absl::OkStatus());
  ASSERT_EQ(reader->Wait(*writer->Record()), absl::OkStatus());
  ASSERT_EQ(region->Read(1000, to->data(), kBytes, *reader), absl::OkStatus());
  ASSERT_EQ(compute().Wait(*reader->Record()), absl::OkStatus());
  EXPECT_EQ(ToHost(*to), values);
  EXPECT_EQ(store_->stats().bytes_written, static_cast<int64_t>(kBytes));
  EXPECT_EQ(store_->stats().bytes_read, static_cast<int64_t>(kBytes));
}

TEST_F(PinnedStoreTest, TransfersMayBeRecorded) {
  const std::shared_ptr<OffloadRegion> region = *store_->Reserve(kBytes);
  const auto in = Allocate();
  const auto out = Allocate();
  ASSERT_EQ(device_->BeginRecording(), absl::OkStatus());
  ASSERT_EQ(region->Write(0, in->data(), kBytes, compute()), absl::OkStatus());
  ASSERT_EQ(region->Read(0, out->data(), kBytes, compute()), absl::OkStatus());
  absl::StatusOr<std::unique_ptr<Recording>> recording = device_->EndRecording();
  ASSERT_EQ(recording.status(), absl::OkStatus());
  for (const int value : {5, -6}) {
    const Values values(kCount, value);
    ASSERT_EQ(device_->CopyFromHost(in->data(), values.data(), kBytes, compute()),
              absl::OkStatus());
    ASSERT_EQ((*recording)->Play(compute()), absl::OkStatus());
    EXPECT_EQ(ToHost(*out), values);
  }
}

TEST_F(PinnedStoreTest, MemoryThatTheHostLacksIsRefused) {
  const absl::Status status = store_->Reserve(int64_t{1} << 46).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("cuda:0"), absl::string_view::npos) << status;
  EXPECT_EQ(store_->stats().reserved_bytes, 0);
  EXPECT_EQ(store_->Reserve(kBytes).status(), absl::OkStatus());
}

TEST_F(PinnedStoreTest, RefusesADirectory) {
  OffloadStoreOptions options;
  options.directory = "/somewhere";
  const absl::Status status = device_->CreateOffloadStore(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("/somewhere"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace zeroth::cuda
