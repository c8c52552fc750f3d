// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/buffer_set.h"

#include <memory>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

// An event that is done when the test says so.
class ManualEvent final : public Event {
 public:
  bool IsDone() const override { return done_; }
  absl::Status Synchronize() const override {
    ++synchronized_;
    return status_;
  }
  void Finish(absl::Status status) {
    done_ = true;
    status_ = status;
  }
  int synchronized() const { return synchronized_; }

 private:
  bool done_ = false;
  absl::Status status_;
  mutable int synchronized_ = 0;
};

// Records the events that it was told to wait for.
class RecordingStream final : public Stream {
 public:
  explicit RecordingStream(Device& device) : device_(device) {}
  Device& device() const override { return device_; }
  absl::string_view name() const override { return "recording"; }
  absl::StatusOr<std::shared_ptr<Event>> Record() override {
    return absl::UnimplementedError("not used");
  }
  absl::Status Wait(const std::shared_ptr<Event>& event) override {
    if (!status_.ok()) return status_;
    waited_for_ = event;
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return status_; }
  absl::Status status() const override { return status_; }

  void Forget() { waited_for_ = nullptr; }
  void Fail() { status_ = absl::InternalError("broken stream"); }
  const std::shared_ptr<Event>& waited_for() const { return waited_for_; }

 private:
  Device& device_;
  absl::Status status_;
  std::shared_ptr<Event> waited_for_;
};

class BufferSetTest : public testing::Test {
 protected:
  int64_t CurrentBytes() const {
    return device_->allocator().stats()[MemoryCategory::kGatheredParameters].current_bytes;
  }

  std::shared_ptr<Device> device_ = *DeviceRegistry::Create("cpu", DeviceOptions());
  RecordingStream stream_{*device_};
  BufferSet set_{*device_, MemoryCategory::kGatheredParameters, {256}, 2};
};

TEST_F(BufferSetTest, AllocatesOnlyWhatIsAskedFor) {
  EXPECT_EQ(CurrentBytes(), 0);
  EXPECT_TRUE(set_.HasRoom(256));
  const Tensor first = *set_.Acquire(100, stream_);
  EXPECT_EQ(first.bytes(), 256u);
  EXPECT_EQ(CurrentBytes(), 256);
  EXPECT_TRUE(set_.HasRoom(256));
  const Tensor second = *set_.Acquire(256, stream_);
  EXPECT_FALSE(set_.HasRoom(256));
  EXPECT_NE(first.raw_data(), second.raw_data());
}

TEST_F(BufferSetTest, TakesTurnsAndWaitsForTheLastUse) {
  Tensor first = *set_.Acquire(256, stream_);
  Tensor second = *set_.Acquire(256, stream_);
  void* const first_data = first.raw_data();
  const auto last_use = std::make_shared<ManualEvent>();
  set_.Release(std::move(first), last_use);
  EXPECT_TRUE(set_.HasRoom(256));
  const Tensor again = *set_.Acquire(10, stream_);
  EXPECT_EQ(again.raw_data(), first_data);
  EXPECT_EQ(stream_.waited_for(), last_use);
  EXPECT_EQ(last_use->synchronized(), 0) << "the host must not wait";
  EXPECT_EQ(CurrentBytes(), 512);
}

TEST_F(BufferSetTest, PrefersTheOtherBufferSoThatNobodyWaits) {
  Tensor first = *set_.Acquire(256, stream_);
  void* const first_data = first.raw_data();
  const auto last_use = std::make_shared<ManualEvent>();
  set_.Release(std::move(first), last_use);
  const Tensor second = *set_.Acquire(256, stream_);
  EXPECT_NE(second.raw_data(), first_data);
  EXPECT_NE(stream_.waited_for(), last_use);
}

TEST_F(BufferSetTest, GoesBeyondTheLimitForWhatMustRunAndComesBack) {
  Tensor buffers[3] = {*set_.Acquire(256, stream_), *set_.Acquire(256, stream_),
                       *set_.Acquire(256, stream_)};
  EXPECT_EQ(CurrentBytes(), 768);
  EXPECT_FALSE(set_.HasRoom(256));
  const auto last_use = std::make_shared<ManualEvent>();
  set_.Release(std::exchange(buffers[0], Tensor()), last_use);
  EXPECT_EQ(last_use->synchronized(), 1) << "the compute stream's order is the allocator's";
  EXPECT_EQ(CurrentBytes(), 512);
  set_.Release(std::exchange(buffers[1], Tensor()), nullptr);
  set_.Release(std::exchange(buffers[2], Tensor()), nullptr);
  EXPECT_EQ(CurrentBytes(), 512);
}

TEST_F(BufferSetTest, AnOversizedRequestGetsASeparateBuffer) {
  Tensor large = *set_.Acquire(1000, stream_);
  EXPECT_EQ(large.bytes(), 1000u);
  set_.Release(std::exchange(large, Tensor()), nullptr);
  EXPECT_EQ(CurrentBytes(), 0);
}

TEST_F(BufferSetTest, EachSizeHasSeparateBuffers) {
  BufferSet set(*device_, MemoryCategory::kGatheredParameters, {256, 64}, 2);
  Tensor large = *set.Acquire(65, stream_);
  EXPECT_EQ(large.bytes(), 256u);
  Tensor small[2] = {*set.Acquire(1, stream_), *set.Acquire(64, stream_)};
  EXPECT_EQ(small[0].bytes(), 64u);
  EXPECT_EQ(CurrentBytes(), 256 + 2 * 64);
  EXPECT_FALSE(set.HasRoom(64));
  EXPECT_TRUE(set.HasRoom(65));
  EXPECT_FALSE(set.HasRoom(257));
  void* const small_data = small[1].raw_data();
  const auto last_use = std::make_shared<ManualEvent>();
  set.Release(std::exchange(large, Tensor()), nullptr);
  EXPECT_FALSE(set.HasRoom(64)) << "what large units have left is not for small ones";
  set.Release(std::exchange(small[1], Tensor()), last_use);
  EXPECT_TRUE(set.HasRoom(64));
  const Tensor again = *set.Acquire(30, stream_);
  EXPECT_EQ(again.raw_data(), small_data);
  EXPECT_EQ(stream_.waited_for(), last_use);
  EXPECT_EQ(CurrentBytes(), 256 + 2 * 64);
  set.Release(std::exchange(small[0], Tensor()), nullptr);
  EXPECT_TRUE(set.Trim().ok());
  EXPECT_EQ(CurrentBytes(), 64);
}

TEST_F(BufferSetTest, AFailedStreamLeavesTheBufferWithItsLastUser) {
  Tensor first = *set_.Acquire(256, stream_);
  Tensor second = *set_.Acquire(256, stream_);
  const auto last_use = std::make_shared<ManualEvent>();
  set_.Release(std::move(first), last_use);
  RecordingStream broken(*device_);
  broken.Fail();
  EXPECT_EQ(set_.Acquire(256, broken).status().message(), "broken stream");
  EXPECT_EQ(CurrentBytes(), 512);
  EXPECT_TRUE(set_.Acquire(256, stream_).ok());
  EXPECT_EQ(stream_.waited_for(), last_use);
}

TEST_F(BufferSetTest, NewMemoryIsOrderedAfterTheComputeStream) {
  const Tensor first = *set_.Acquire(256, stream_);
  ASSERT_NE(stream_.waited_for(), nullptr);
  EXPECT_TRUE(stream_.waited_for()->IsDone());
  stream_.Forget();
  const Tensor second = *set_.Acquire(256, device_->compute_stream());
  EXPECT_EQ(stream_.waited_for(), nullptr);
}

TEST_F(BufferSetTest, TrimWaitsForEveryLastUse) {
  Tensor first = *set_.Acquire(256, stream_);
  Tensor second = *set_.Acquire(256, stream_);
  const auto one = std::make_shared<ManualEvent>();
  const auto other = std::make_shared<ManualEvent>();
  set_.Release(std::move(first), one);
  set_.Release(std::move(second), other);
  EXPECT_TRUE(set_.Trim().ok());
  EXPECT_EQ(one->synchronized(), 1);
  EXPECT_EQ(other->synchronized(), 1);
  EXPECT_EQ(CurrentBytes(), 0);
}

// A failed compute stream waits for nothing.
TEST_F(BufferSetTest, AfterAnErrorMemoryStaysUntilItsLastUseIsDone) {
  Tensor small[2] = {*set_.Acquire(256, stream_), *set_.Acquire(256, stream_)};
  Tensor large = *set_.Acquire(1024, stream_);
  const auto failed = std::make_shared<ManualEvent>();
  failed->Finish(absl::DataLossError("bits fell off"));
  const auto running = std::make_shared<ManualEvent>();
  set_.Release(std::move(small[0]), failed);
  set_.Release(std::move(small[1]), running);
  EXPECT_TRUE(absl::IsDataLoss(set_.Trim()));
  EXPECT_EQ(CurrentBytes(), 256 + 1024);
  set_.Release(std::move(large), running);
  EXPECT_EQ(CurrentBytes(), 256 + 1024);
  running->Finish(absl::OkStatus());
  EXPECT_TRUE(set_.Trim().ok());
  EXPECT_EQ(CurrentBytes(), 0);
}

}  // namespace
}  // namespace zeroth
