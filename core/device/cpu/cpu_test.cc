// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The CPU device through the Device interface.

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/hardware.h"
#include "zeroth/core/device/memory.h"

namespace zeroth {
namespace {

std::shared_ptr<Device> MustCreate(const DeviceOptions& options = {}) {
  absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(CpuDeviceTest, IsRegisteredAndDescribesItself) {
  const auto device = MustCreate({.index = 0, .threads = 3});
  EXPECT_EQ(device->type(), "cpu");
  EXPECT_EQ(device->index(), 0);
  EXPECT_EQ(device->name(), "cpu:0");
  EXPECT_EQ(device->options().threads, 3);
}

TEST(CpuDeviceTest, NamesItsProcessor) {
  const absl::StatusOr<std::string> name = HardwareName(*MustCreate());
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_FALSE(name->empty());
  EXPECT_EQ(name->find('\n'), std::string::npos) << "of the first processor alone";
  EXPECT_EQ(*HardwareName(*MustCreate({.threads = 2})), *name);
}

TEST(CpuDeviceTest, RefusesBadOptions) {
  const absl::Status index = DeviceRegistry::Create("cpu", {.index = 1}).status();
  EXPECT_EQ(index.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(index.message().find("cpu:1"), absl::string_view::npos) << index;
  for (const int threads : {0, -2}) {
    const absl::Status status = DeviceRegistry::Create("cpu", {.threads = threads}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("got " + std::to_string(threads)), absl::string_view::npos)
        << status;
  }
}

TEST(CpuDeviceTest, RecordsNothing) {
  const auto device = MustCreate();
  EXPECT_FALSE(device->CanRecord());
  for (const absl::Status& status : {device->BeginRecording(), device->EndRecording().status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(status.message().find("device cpu:0 cannot record"), absl::string_view::npos)
        << status;
  }
}

TEST(CpuDeviceTest, RanksHaveSeparateAccounts) {
  const auto a = MustCreate();
  const auto b = MustCreate();
  const auto buffer = a->allocator().Allocate(100, MemoryCategory::kParameters);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(a->allocator().stats().total.current_bytes, 100);
  EXPECT_EQ(b->allocator().stats().total.current_bytes, 0);
}

TEST(CpuDeviceTest, BufferMayOutliveTheDevice) {
  auto device = MustCreate();
  auto buffer = *device->allocator().Allocate(sizeof(int), MemoryCategory::kWorkspace);
  device = nullptr;
  *static_cast<int*>(buffer->data()) = 5;
  EXPECT_EQ(*static_cast<int*>(buffer->data()), 5);
}

TEST(CpuDeviceTest, BindThreadSetsTheTeamSize) {
  const int before = omp_get_max_threads();
  MustCreate({.threads = before + 1})->BindThread();
  EXPECT_EQ(omp_get_max_threads(), before + 1);
  omp_set_num_threads(before);
}

TEST(CpuDeviceTest, ComputeStreamIsInlineAndOthersAreWorkers) {
  const auto device = MustCreate();
  bool ran = false;
  const auto mark = [&ran] {
    ran = true;
    return absl::OkStatus();
  };
  ASSERT_TRUE(CpuStream::From(device->compute_stream()).Enqueue(mark).ok());
  EXPECT_TRUE(ran);
  auto stream = device->CreateStream("gather");
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ((*stream)->name(), "gather");
  EXPECT_EQ(&(*stream)->device(), device.get());
  ran = false;
  ASSERT_TRUE(CpuStream::From(**stream).Enqueue(mark).ok());
  ASSERT_TRUE((*stream)->Synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST(CpuDeviceTest, CopiesAndFillsInStreamOrder) {
  const auto device = MustCreate();
  auto created = device->CreateStream("copies");
  ASSERT_TRUE(created.ok());
  for (Stream* stream : {&device->compute_stream(), created->get()}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1000003}}) {
      std::vector<uint8_t> source(count);
      std::iota(source.begin(), source.end(), uint8_t{1});
      std::vector<uint8_t> first(count);
      std::vector<uint8_t> second(count, 9);
      std::vector<uint8_t> third(count, 9);
      ASSERT_TRUE(device->CopyFromHost(first.data(), source.data(), count, *stream).ok());
      ASSERT_TRUE(device->Copy(second.data(), first.data(), count, *stream).ok());
      ASSERT_TRUE(device->CopyToHost(third.data(), second.data(), count, *stream).ok());
      ASSERT_TRUE(device->FillZero(second.data(), count / 2, *stream).ok());
      ASSERT_TRUE(stream->Synchronize().ok());
      EXPECT_EQ(first, source);
      EXPECT_EQ(third, source);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(second[i], i < count / 2 ? 0 : source[i]) << i;
    }
  }
}

TEST(CpuDeviceTest, EmptyOperationsAllowNullPointersAndReportTheStream) {
  const auto device = MustCreate();
  Stream& stream = device->compute_stream();
  EXPECT_TRUE(device->Copy(nullptr, nullptr, 0, stream).ok());
  EXPECT_TRUE(device->FillZero(nullptr, 0, stream).ok());
  (void)CpuStream::From(stream).Enqueue([] { return absl::AbortedError("broken"); });
  char byte = 1;
  EXPECT_EQ(device->FillZero(nullptr, 0, stream), absl::AbortedError("broken"));
  EXPECT_EQ(device->FillZero(&byte, 1, stream), absl::AbortedError("broken"));
  EXPECT_EQ(byte, 1);
}

TEST(CpuDeviceDeathTest, RefusesStreamsOfAnotherDevice) {
  const auto a = MustCreate();
  const auto b = MustCreate();
  char byte = 0;
  EXPECT_DEATH((void)a->FillZero(&byte, 1, b->compute_stream()), "invariant violated");
}

}  // namespace
}  // namespace zeroth
