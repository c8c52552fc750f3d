// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/hardware.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/device/timeline.h"

namespace zeroth::cuda {
namespace {

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
  }

  std::shared_ptr<Buffer> Allocate(size_t bytes) {
    return *device_->allocator().Allocate(bytes, MemoryCategory::kWorkspace);
  }
  int64_t BytesInUse() const {
    return device_->allocator().stats()[MemoryCategory::kWorkspace].current_bytes;
  }

  std::shared_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, DescribesItself) {
  EXPECT_EQ(device_->type(), "cuda");
  EXPECT_EQ(device_->name(), "cuda:0");
  const DeviceProperties& properties = CudaDevice::From(*device_).properties();
  EXPECT_GT(properties.multiprocessors, 0);
  EXPECT_GE(properties.shared_bytes_per_block, size_t{48} << 10);
  const absl::StatusOr<std::string> hardware = HardwareName(*device_);
  ASSERT_TRUE(hardware.ok()) << hardware.status();
#if defined(ZEROTH_CUDA_EMULATION)
  EXPECT_EQ(*hardware, "emulated CUDA device, compute capability 9.0, 4 multiprocessors");
#else
  EXPECT_NE(hardware->find(", compute capability "), std::string::npos) << *hardware;
#endif
}

TEST_F(CudaDeviceTest, ToolsThatWatchMemoryCanAskForBlocksOfJustTheirSize) {
  const auto reserved_for = [](size_t bytes) {
    const std::shared_ptr<Device> device = *DeviceRegistry::Create("cuda", DeviceOptions());
    const auto buffer = *device->allocator().Allocate(bytes, MemoryCategory::kWorkspace);
    return device->allocator().stats().reserved_bytes;
  };
  ASSERT_EQ(setenv("ZEROTH_CUDA_EXACT_BLOCKS", "1", /*overwrite=*/1), 0);
  EXPECT_EQ(reserved_for(1001), 1001);
  ASSERT_EQ(unsetenv("ZEROTH_CUDA_EXACT_BLOCKS"), 0);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_GT(reserved_for(1001), 1001);
#endif
}

TEST_F(CudaDeviceTest, AnIndexBeyondTheDevicesSaysHowManyThereAre) {
  DeviceOptions options;
  options.index = 1000;
  const absl::Status status = DeviceRegistry::Create("cuda", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("cuda:1000"), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("visible here"), std::string::npos) << status;
}

TEST_F(CudaDeviceTest, CopiesLargerThanAllStagingArriveWhole) {
  const size_t count = 3 * HostStaging::kSlots * HostStaging::kSlotBytes / sizeof(int) + 7;
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1);
  const size_t bytes = count * sizeof(int);
  const auto first = Allocate(bytes);
  const auto second = Allocate(bytes);
  const std::unique_ptr<Stream> side = *device_->CreateStream("side");
  ASSERT_TRUE(device_->CopyFromHost(first->data(), values.data(), bytes, *side).ok());
  const std::vector<int> sent = std::exchange(values, std::vector<int>(count));  // free at once
  ASSERT_TRUE(device_->compute_stream().Wait(*side->Record()).ok());
  ASSERT_TRUE(device_->Copy(second->data(), first->data(), bytes, device_->compute_stream()).ok());
  ASSERT_TRUE(
      device_->CopyToHost(values.data(), second->data(), bytes, device_->compute_stream()).ok());
  ASSERT_TRUE(device_->compute_stream().Synchronize().ok());
  EXPECT_EQ(values, sent);
  ASSERT_TRUE(device_->FillZero(second->data(), bytes, *side).ok());
  ASSERT_TRUE(device_->CopyToHost(values.data(), second->data(), bytes, *side).ok());
  ASSERT_TRUE(side->Synchronize().ok());
  EXPECT_EQ(values, std::vector<int>(count, 0));
}

TEST_F(CudaDeviceTest, EmptyOperationsAllowNullPointers) {
  Stream& stream = device_->compute_stream();
  EXPECT_TRUE(device_->Copy(nullptr, nullptr, 0, stream).ok());
  EXPECT_TRUE(device_->CopyFromHost(nullptr, nullptr, 0, stream).ok());
  EXPECT_TRUE(device_->CopyToHost(nullptr, nullptr, 0, stream).ok());
  EXPECT_TRUE(device_->FillZero(nullptr, 0, stream).ok());
}

TEST_F(CudaDeviceTest, RetainedMemoryGoesWhenTheComputeStreamIsOrderedBehindItsUse) {
  const std::unique_ptr<Stream> side = *device_->CreateStream("side");
  CudaStream::From(*side).Retain(Allocate(1000));
  const std::shared_ptr<Event> used = *side->Record();
  CudaStream::From(*side).Retain(Allocate(300));
  EXPECT_EQ(BytesInUse(), 1300);
  ASSERT_TRUE(device_->compute_stream().Wait(used).ok());
  EXPECT_EQ(BytesInUse(), 300) << "what the event comes after, and no more";
  ASSERT_TRUE(side->Synchronize().ok());
  EXPECT_EQ(BytesInUse(), 0);
}

TEST_F(CudaDeviceTest, TheComputeStreamRetainsNothing) {
  CudaDevice::From(*device_).compute_stream().Retain(Allocate(1000));
  EXPECT_EQ(BytesInUse(), 0);
}

TEST_F(CudaDeviceTest, AFailedStreamKeepsItsFirstErrorAndFailsWhoWaitsForIt) {
  const std::unique_ptr<Stream> side = *device_->CreateStream("side");
  const std::shared_ptr<Event> before = *side->Record();
  CudaStream::From(*side).Update(absl::DataLossError("first")).IgnoreError();
  CudaStream::From(*side).Update(absl::InternalError("second")).IgnoreError();
  EXPECT_EQ(side->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(side->Record().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(device_->FillZero(nullptr, 8, *side).code(), absl::StatusCode::kDataLoss);
  const std::unique_ptr<Stream> other = *device_->CreateStream("other");
  EXPECT_EQ(other->Wait(before).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(other->Synchronize().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CudaDeviceTest, BadDataShowsWhenTheHostWaits) {
  const std::unique_ptr<Stream> side = *device_->CreateStream("side");
  DataErrorWord* const word = CudaStream::From(*side).data_error();
  word->code = static_cast<unsigned>(DataErrorCode::kTarget);
  word->value = -7;
  word->position = 3;
  word->limit = 50;
  EXPECT_TRUE(side->status().ok());
  const absl::Status status = (*side->Record())->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("targets[3] is -7"), std::string::npos) << status;
  EXPECT_EQ(side->Synchronize(), status);
}

// Libraries look for a last error after what they launch, and would mistake another call's for
// theirs.
TEST_F(CudaDeviceTest, NeitherFailuresNorQuestionsLeaveALastErrorBehind) {
  EXPECT_FALSE(ToStatus(cudaSetDevice(1000), "cudaSetDevice").ok());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);

  std::atomic<bool> go{false};
  CudaStream& stream = CudaStream::From(device_->compute_stream());
  const auto wait = [](void* flag) {
    while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
  };
  ASSERT_EQ(cudaLaunchHostFunc(stream.handle(), wait, &go), cudaSuccess);
  const std::shared_ptr<Event> event = *stream.Record();
  EXPECT_FALSE(event->IsDone());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  go = true;
  EXPECT_TRUE(event->Synchronize().ok());
  EXPECT_TRUE(event->IsDone());
}

class Counted final : public HostCondition {
 public:
  absl::Status Await(uint64_t count) override {
    counts.push_back(count);
    return count < 10 ? absl::OkStatus() : absl::DataLossError("ranks disagree");
  }
  std::vector<uint64_t> counts;
};

TEST_F(CudaDeviceTest, AHostThatWaitsAwaitsWhatStreamsAndTheirEventsRequire) {
  const auto condition = std::make_shared<Counted>();
  const std::unique_ptr<Stream> side = *device_->CreateStream("side");
  Stream& compute = device_->compute_stream();
  CudaStream::From(*side).Require(condition, 3);
  const std::shared_ptr<Event> early = *side->Record();
  CudaStream::From(*side).Require(condition, 5);
  EXPECT_TRUE(compute.Synchronize().ok());
  EXPECT_TRUE(condition->counts.empty()) << "the streams have nothing to do with each other";
  ASSERT_TRUE(compute.Wait(early).ok());
  EXPECT_TRUE(condition->counts.empty()) << "only the host waits";
  EXPECT_TRUE(compute.Synchronize().ok());
  EXPECT_EQ(condition->counts, (std::vector<uint64_t>{3}));
  EXPECT_TRUE(compute.Synchronize().ok());
  EXPECT_EQ(condition->counts, (std::vector<uint64_t>{3})) << "once is enough";
  EXPECT_TRUE(side->Synchronize().ok());
  EXPECT_EQ(condition->counts, (std::vector<uint64_t>{3, 5}));

  CudaStream::From(*side).Require(condition, 10);
  const std::shared_ptr<Event> late = *side->Record();
  EXPECT_EQ(late->Synchronize().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(side->status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CudaDeviceTest, EventsTellTheTimeIfTheyWereAskedTo) {
  const std::unique_ptr<Stream> side = *device_->CreateStream("side");
  EXPECT_EQ((*side->Record())->Seconds().status().code(), absl::StatusCode::kFailedPrecondition);
  Timeline timeline;
  timeline.set_recording(true);
  const auto memory = Allocate(1 << 20);
  ASSERT_TRUE(timeline.Begin(*side, "fill").ok());
  ASSERT_TRUE(device_->FillZero(memory->data(), memory->bytes(), *side).ok());
  ASSERT_TRUE(timeline.End(*side, "fill").ok());
  const absl::StatusOr<std::vector<Timeline::Span>> spans = timeline.Take();
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(spans->size(), 1u);
  EXPECT_GE(spans->front().end, spans->front().begin);
}

TEST_F(CudaDeviceTest, MoreMemoryThanThereIsIsAnErrorThatSaysWhatIsFree) {
  const absl::Status status =
      device_->allocator().Allocate(size_t{1} << 46, MemoryCategory::kActivations).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"for activations", "cuda:0 has no more memory", "bytes are free"}) {
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
  }
  EXPECT_NE(Allocate(1 << 20), nullptr) << "the device is as good as before";
}

}  // namespace
}  // namespace zeroth::cuda
