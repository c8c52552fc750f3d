// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cpu/pool_allocator.h"

#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/memory.h"

namespace zeroth {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

std::shared_ptr<Buffer> MustAllocate(Allocator& allocator, size_t bytes,
                                     MemoryCategory category = MemoryCategory::kActivations) {
  absl::StatusOr<std::shared_ptr<Buffer>> buffer = allocator.Allocate(bytes, category);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

TEST(PoolAllocatorTest, BlockBytesCoverTheRequestWithBoundedWaste) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const size_t bytes = random() >> (24 + random() % 40);
    const size_t block = PoolAllocator::BlockBytes(bytes);
    ASSERT_GE(block, std::max<size_t>(bytes, 1));
    ASSERT_EQ(block % PoolAllocator::kAlignment, 0u);
    ASSERT_EQ(PoolAllocator::BlockBytes(block), block) << "a block must serve its own size";
    ASSERT_GE(PoolAllocator::BlockBytes(bytes + 1), block) << "not monotone";
    if (block >= PoolAllocator::kLargeBytes) {
      ASSERT_EQ(block % PoolAllocator::kHugePageBytes, 0u);
      ASSERT_LT(block - bytes, PoolAllocator::kHugePageBytes);
    } else {
      ASSERT_LE(block - bytes, std::max(PoolAllocator::kAlignment, bytes / 8)) << bytes;
    }
  }
}

TEST(PoolAllocatorTest, BlocksAreAlignedWritableAndDisjoint) {
  auto allocator = std::make_shared<PoolAllocator>();
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{65}, size_t{1025}, kMiB + 7,
                             4 * kMiB, 5 * kMiB + 1}) {
    buffers.push_back(MustAllocate(*allocator, bytes));
    const Buffer& buffer = *buffers.back();
    ASSERT_NE(buffer.data(), nullptr);
    EXPECT_EQ(buffer.bytes(), bytes);
    const size_t alignment = bytes >= PoolAllocator::kLargeBytes ? PoolAllocator::kHugePageBytes
                                                                 : PoolAllocator::kAlignment;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u) << bytes;
    std::memset(buffer.data(), static_cast<int>(buffers.size()), bytes);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(buffers[i]->data());
    EXPECT_TRUE(std::all_of(bytes, bytes + buffers[i]->bytes(),
                            [i](unsigned char byte) { return byte == i + 1; }));
  }
}

TEST(PoolAllocatorTest, EmptyBuffersHaveDistinctBlocksAndCountNoBytes) {
  auto allocator = std::make_shared<PoolAllocator>();
  const auto a = MustAllocate(*allocator, 0);
  const auto b = MustAllocate(*allocator, 0);
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(allocator->stats().total.current_bytes, 0);
  EXPECT_EQ(allocator->stats().total.allocations, 2);
}

TEST(PoolAllocatorTest, FreedBlockIsReusedForTheSameSize) {
  auto allocator = std::make_shared<PoolAllocator>();
  for (const size_t bytes : {size_t{100}, size_t{70000}, 9 * kMiB}) {
    void* const first = MustAllocate(*allocator, bytes)->data();
    const int64_t reserved = allocator->stats().reserved_bytes;
    const auto second = MustAllocate(*allocator, bytes - 1, MemoryCategory::kGradients);
    EXPECT_EQ(second->data(), first) << bytes;
    EXPECT_EQ(allocator->stats().reserved_bytes, reserved);
  }
}

TEST(PoolAllocatorTest, ReusesBlocksUpToAQuarterLargerOnly) {
  auto allocator = std::make_shared<PoolAllocator>();
  void* const ten = MustAllocate(*allocator, 10 * kMiB)->data();
  const auto seven = MustAllocate(*allocator, 7 * kMiB);  // 8 MiB with rounding, and 10 = 1.25 * 8
  EXPECT_EQ(seven->data(), ten);
  void* const twenty = MustAllocate(*allocator, 20 * kMiB)->data();
  EXPECT_NE(MustAllocate(*allocator, 12 * kMiB)->data(), twenty);
}

TEST(PoolAllocatorTest, PrefersTheClosestSize) {
  auto allocator = std::make_shared<PoolAllocator>();
  auto large = MustAllocate(*allocator, 20 * kMiB);
  auto close = MustAllocate(*allocator, 18 * kMiB);
  void* const expected = close->data();
  large = nullptr;
  close = nullptr;
  EXPECT_EQ(MustAllocate(*allocator, 17 * kMiB)->data(), expected);
}

TEST(PoolAllocatorTest, RepeatedPatternReservesNothingAfterTheFirstRound) {
  auto allocator = std::make_shared<PoolAllocator>();
  std::mt19937 random(5);
  std::vector<size_t> sizes(60);
  for (size_t& size : sizes) size = random() % (random() % 4 == 0 ? 6 * kMiB : 40000);
  const auto step = [&] {
    std::vector<std::shared_ptr<Buffer>> live;
    for (const size_t size : sizes) live.push_back(MustAllocate(*allocator, size));
    while (!live.empty()) live.pop_back();
  };
  step();
  const int64_t reserved = allocator->stats().reserved_bytes;
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(allocator->stats().reserved_bytes, reserved);
}

TEST(PoolAllocatorTest, TrimGivesBackWhatNobodyUses) {
  auto allocator = std::make_shared<PoolAllocator>();
  auto kept = MustAllocate(*allocator, 5 * kMiB);
  MustAllocate(*allocator, 8 * kMiB);
  MustAllocate(*allocator, 300);
  EXPECT_EQ(allocator->stats().reserved_bytes, static_cast<int64_t>(14 * kMiB + 320));
  allocator->Trim();
  EXPECT_EQ(allocator->stats().reserved_bytes, static_cast<int64_t>(6 * kMiB));
  std::memset(kept->data(), 1, kept->bytes());
  kept = nullptr;
  allocator->Trim();
  EXPECT_EQ(allocator->stats().reserved_bytes, 0);
}

TEST(PoolAllocatorTest, ImpossibleRequestsAreResourceExhausted) {
  auto allocator = std::make_shared<PoolAllocator>();
  const auto held = MustAllocate(*allocator, 123, MemoryCategory::kOptimizer);
  for (const size_t bytes : {~size_t{0}, size_t{1} << 62, size_t{1} << 55}) {
    const absl::Status status = allocator->Allocate(bytes, MemoryCategory::kParameters).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_NE(
        status.message().find(std::to_string(bytes) + " bytes for parameters (123 bytes in use"),
        absl::string_view::npos)
        << status;
  }
  EXPECT_EQ(allocator->stats().total.allocations, 1);
  EXPECT_EQ(allocator->stats()[MemoryCategory::kParameters].peak_bytes, 0);
}

// Compares the account with a model of it, for random requests, frees, peak resets and trims.
TEST(PoolAllocatorTest, AccountMatchesAModel) {
  auto allocator = std::make_shared<PoolAllocator>();
  std::mt19937 random(11);
  std::vector<std::shared_ptr<Buffer>> live;
  std::array<MemoryStats::Usage, kMemoryCategoryCount> categories{};
  MemoryStats::Usage total;
  const auto add = [](MemoryStats::Usage& usage, size_t bytes) {
    usage.current_bytes += static_cast<int64_t>(bytes);
    usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
    usage.allocations += 1;
  };
  const auto expect_equal = [](const MemoryStats::Usage& actual,
                               const MemoryStats::Usage& expected) {
    ASSERT_EQ(actual.current_bytes, expected.current_bytes);
    ASSERT_EQ(actual.peak_bytes, expected.peak_bytes);
    ASSERT_EQ(actual.allocations, expected.allocations);
  };
  for (int i = 0; i < 4000; ++i) {
    const auto action = random() % 100;
    if (action < 55 || live.empty()) {
      const size_t bytes = random() % (random() % 20 == 0 ? 12 * kMiB : 5000);
      const size_t category = random() % kMemoryCategoryCount;
      live.push_back(MustAllocate(*allocator, bytes, static_cast<MemoryCategory>(category)));
      add(categories[category], bytes);
      add(total, bytes);
    } else if (action < 97) {
      std::swap(live[random() % live.size()], live.back());
      const auto bytes = static_cast<int64_t>(live.back()->bytes());
      categories[static_cast<size_t>(live.back()->category())].current_bytes -= bytes;
      total.current_bytes -= bytes;
      live.pop_back();
    } else if (action < 99) {
      allocator->ResetPeaks();
      for (auto& usage : categories) usage.peak_bytes = usage.current_bytes;
      total.peak_bytes = total.current_bytes;
    } else {
      allocator->Trim();
    }
    const MemoryStats stats = allocator->stats();
    ASSERT_NO_FATAL_FAILURE(expect_equal(stats.total, total));
    for (size_t c = 0; c < categories.size(); ++c) {
      ASSERT_NO_FATAL_FAILURE(expect_equal(stats.categories[c], categories[c]));
    }
    ASSERT_GE(stats.reserved_bytes, stats.total.current_bytes);
  }
}

TEST(PoolAllocatorTest, ThreadsShareOneAllocator) {
  auto allocator = std::make_shared<PoolAllocator>();
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  std::array<int, kThreads> damaged{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      std::vector<std::shared_ptr<Buffer>> live;
      for (int i = 0; i < kRounds; ++i) {
        live.push_back(MustAllocate(*allocator, 1 + random() % 3000));
        std::memset(live.back()->data(), t, live.back()->bytes());
        if (live.size() < 5) continue;
        const auto* bytes = static_cast<const unsigned char*>(live.front()->data());
        damaged[static_cast<size_t>(t)] += !std::all_of(
            bytes, bytes + live.front()->bytes(), [t](unsigned char byte) { return byte == t; });
        live.erase(live.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, (std::array<int, kThreads>{}));
  EXPECT_EQ(allocator->stats().total.current_bytes, 0);
  EXPECT_EQ(allocator->stats().total.allocations, kThreads * kRounds);
}

#ifdef __SANITIZE_ADDRESS__
TEST(PoolAllocatorTest, AddressSanitizerSeesPooledBlocksAndSlack) {
  auto allocator = std::make_shared<PoolAllocator>();
  for (const size_t bytes : {size_t{100}, 5 * kMiB}) {
    auto buffer = MustAllocate(*allocator, bytes);
    auto* const data = static_cast<char*>(buffer->data());
    EXPECT_EQ(__asan_region_is_poisoned(data, bytes), nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(data + bytes));
    buffer = nullptr;
    EXPECT_TRUE(__asan_address_is_poisoned(data));
    EXPECT_TRUE(__asan_address_is_poisoned(data + bytes - 1));
  }
}
#endif

TEST(PoolAllocatorTest, ErrorsNameThePlaceAndWhereMostIsHeld) {
  const auto allocator_ptr = std::make_shared<PoolAllocator>();
  Allocator& allocator = *allocator_ptr;
  allocator.set_limit(100 << 20);
  const auto take = [&](size_t mib, MemoryCategory category) {
    return MustAllocate(allocator, mib * kMiB, category);
  };
  std::vector<std::shared_ptr<Buffer>> held = {take(20, MemoryCategory::kParameters)};
  allocator.EnterPlace("forward", "root");
  held.push_back(take(3, MemoryCategory::kActivations));
  allocator.EnterPlace("forward", "h.0");
  held.push_back(take(30, MemoryCategory::kActivations));
  held.push_back(take(4, MemoryCategory::kActivations));
  take(40, MemoryCategory::kWorkspace);  // returned
  allocator.LeavePlace();
  held.push_back(take(5, MemoryCategory::kGatheredParameters));
  const absl::Status status = allocator.Allocate(60 * kMiB, MemoryCategory::kActivations).status();
  for (const char* words :
       {"bytes for activations in forward root (",
        "\n  in use: parameters 20.0 MiB, gathered_parameters 5.0 MiB, activations 37.0 MiB\n",
        "from:\n    forward h.0: 34.0 MiB of activations\n    setting up: 20.0 MiB of parameters\n"
        "    forward root: 5.0 MiB of gathered_parameters\n    forward root: 3.0 MiB of "
        "activations"}) {
    EXPECT_NE(status.message().find(words), absl::string_view::npos) << words << " in " << status;
  }
  // Ten at most.
  allocator.LeaveAllPlaces();
  for (int i = 0; i < 12; ++i) {
    const AllocationPlace place(allocator, "forward", "b." + std::to_string(i));
    held.push_back(take(1, MemoryCategory::kActivations));
  }
  const absl::Status many = allocator.Allocate(60 * kMiB, MemoryCategory::kActivations).status();
  const std::string text(many.message());
  EXPECT_EQ(text.find("(") - text.find("for activations"), 16u)
      << "outside of all places: " << text;
  size_t rows = 0;
  for (size_t at = text.find("\n    "); at != std::string::npos; at = text.find("\n    ", at + 1)) {
    ++rows;
  }
  EXPECT_EQ(rows, 10u) << text;
}

}  // namespace
}  // namespace zeroth
