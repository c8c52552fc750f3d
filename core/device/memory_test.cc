// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth {
namespace {

TEST(MemoryCategoryTest, NamesAreDistinct) {
  std::set<std::string> names;
  for (int i = 0; i < kMemoryCategoryCount; ++i) {
    names.insert(std::string(MemoryCategoryName(static_cast<MemoryCategory>(i))));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kMemoryCategoryCount));
  EXPECT_EQ(MemoryCategoryName(MemoryCategory::kGatheredParameters), "gathered_parameters");
  EXPECT_EQ(MemoryCategoryName(MemoryCategory::kWorkspace), "workspace");
}

// Hands out one block at a time and then has no more.
class OneBlockAllocator : public Allocator {
 public:
  explicit OneBlockAllocator(bool& destroyed) : destroyed_(destroyed) {}
  ~OneBlockAllocator() override { destroyed_ = true; }

  MemoryStats stats() const override {
    MemoryStats stats;
    stats.total.current_bytes = used_ ? 16 : 0;
    stats.reserved_bytes = 64;
    return stats;
  }
  void ResetPeaks() override {}
  void Trim() override {}
  bool used() const { return used_; }

 protected:
  absl::StatusOr<void*> AllocateRaw(size_t, MemoryCategory) override {
    if (used_) return absl::ResourceExhaustedError("the block is taken");
    used_ = true;
    return block_;
  }
  void FreeRaw(void* data, size_t bytes, MemoryCategory category) override {
    EXPECT_EQ(data, block_);
    EXPECT_EQ(bytes, 16u);
    EXPECT_EQ(category, MemoryCategory::kOptimizer);
    used_ = false;
  }

 private:
  bool& destroyed_;
  bool used_ = false;
  char block_[64] = {};
};

TEST(BufferTest, GivesItselfBackWithTheLastOwnerAndKeepsTheAllocatorAlive) {
  bool destroyed = false;
  auto allocator = std::make_shared<OneBlockAllocator>(destroyed);
  auto buffer = allocator->Allocate(16, MemoryCategory::kOptimizer);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ((*buffer)->bytes(), 16u);
  EXPECT_EQ((*buffer)->category(), MemoryCategory::kOptimizer);
  std::shared_ptr<Buffer> second = *buffer;
  *buffer = nullptr;
  EXPECT_TRUE(allocator->used());
  allocator = nullptr;
  EXPECT_FALSE(destroyed);
  second = nullptr;
  EXPECT_TRUE(destroyed);
}

TEST(AllocatorTest, ALimitIsKeptAndSaysByHowMuchItWouldBeExceeded) {
  bool destroyed = false;
  const auto allocator = std::make_shared<OneBlockAllocator>(destroyed);
  allocator->set_limit(20);
  const auto first = allocator->Allocate(16, MemoryCategory::kOptimizer);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status status = allocator->Allocate(7, MemoryCategory::kOptimizer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* words :
       {"7 bytes for optimizer", "16 bytes in use", "3 bytes above", "limit of 20"}) {
    EXPECT_NE(status.message().find(words), absl::string_view::npos) << words << " in " << status;
  }
}

TEST(AllocatorTest, ErrorsSayWhatWasAskedForAndWhatIsInUse) {
  bool destroyed = false;
  auto allocator = std::make_shared<OneBlockAllocator>(destroyed);
  const auto first = allocator->Allocate(16, MemoryCategory::kOptimizer);
  ASSERT_TRUE(first.ok());
  const absl::Status status =
      allocator->Allocate(1000, MemoryCategory::kGatheredParameters).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "cannot allocate 1000 bytes for gathered_parameters (16 bytes in use, 64 reserved): "
            "the block is taken\n"
            "  in use: \n"
            "  most of it from:\n"
            "    setting up: 0.0 MiB of optimizer");
}

}  // namespace
}  // namespace zeroth
