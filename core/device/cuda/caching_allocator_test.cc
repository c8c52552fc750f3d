// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/caching_allocator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

using Handle = std::shared_ptr<Buffer>;

// A device of a given size, whose memory is never accessed.
class FakeMemory final : public MemorySource {
 public:
  explicit FakeMemory(size_t capacity) : capacity_(capacity) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    ++calls_;
    if (bytes > capacity_ - used_) return absl::ResourceExhaustedError("full");
    used_ += bytes;
    const uintptr_t begin = next_;
    next_ += (bytes + 4095) / 4096 * 4096 + 4096;  // never two segments side by side
    segments_[begin] = bytes;
    return reinterpret_cast<void*>(begin);
  }
  void Free(void* data, size_t bytes) override {
    const auto found = segments_.find(reinterpret_cast<uintptr_t>(data));
    ASSERT_NE(found, segments_.end());
    EXPECT_EQ(found->second, bytes);
    used_ -= bytes;
    segments_.erase(found);
  }

  // True if [data, data + bytes) lies inside of one segment.
  bool Contains(const void* data, size_t bytes) const {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
    auto after = segments_.upper_bound(begin);
    if (after == segments_.begin()) return false;
    --after;
    return begin + bytes <= after->first + after->second;
  }
  size_t used() const { return used_; }
  int calls() const { return calls_; }

 private:
  const size_t capacity_;
  size_t used_ = 0;
  int calls_ = 0;
  uintptr_t next_ = uintptr_t{1} << 30;
  std::map<uintptr_t, size_t> segments_;
};

class CachingAllocatorTest : public testing::Test {
 protected:
  void Make(size_t capacity, bool exact = false) {
    auto memory = std::make_unique<FakeMemory>(capacity);
    memory_ = memory.get();
    allocator_ = std::make_shared<CachingAllocator>(std::move(memory), exact);
  }
  Handle Take(size_t bytes) {
    absl::StatusOr<Handle> handle = allocator_->Allocate(bytes, MemoryCategory::kActivations);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *handle : nullptr;
  }

  FakeMemory* memory_ = nullptr;
  std::shared_ptr<CachingAllocator> allocator_;
};

constexpr size_t kMiB = size_t{1} << 20;

TEST_F(CachingAllocatorTest, TransportMemoryHasASeparateSourceAndIsNeverKept) {
  Make(1 << 30);
  EXPECT_FALSE(allocator_->has_transport_memory());
  EXPECT_EQ(
      allocator_->AllocateForTransport(kMiB, MemoryCategory::kGatheredParameters).status().code(),
      absl::StatusCode::kUnimplemented);

  const auto transport = std::make_shared<FakeMemory>(100 * kMiB);
  allocator_ = std::make_shared<CachingAllocator>(std::make_unique<FakeMemory>(1 << 30),
                                                  /*exact=*/false, transport);
  EXPECT_TRUE(allocator_->has_transport_memory());
  const auto take = [&](size_t bytes) {
    return allocator_->AllocateForTransport(bytes, MemoryCategory::kGatheredParameters);
  };
  absl::StatusOr<Handle> first = take(60 * kMiB - 3);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(transport->Contains((*first)->data(), 60 * kMiB - 3));
  EXPECT_EQ(allocator_->stats()[MemoryCategory::kGatheredParameters].current_bytes,
            static_cast<int64_t>(60 * kMiB - 3));
  const absl::Status full = take(41 * kMiB).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  first = absl::CancelledError();
  EXPECT_EQ(transport->used(), 0u);
  EXPECT_EQ(allocator_->stats().total.current_bytes, 0);
  EXPECT_EQ(allocator_->stats().reserved_bytes, 0);
  EXPECT_TRUE(take(100 * kMiB).ok());
}

TEST_F(CachingAllocatorTest, ARecordingHoldsTransportMemoryThatIsFreed) {
  const auto transport = std::make_shared<FakeMemory>(100 * kMiB);
  allocator_ = std::make_shared<CachingAllocator>(std::make_unique<FakeMemory>(1 << 30),
                                                  /*exact=*/false, transport);
  const auto take = [&] {
    return *allocator_->AllocateForTransport(10 * kMiB, MemoryCategory::kGradients);
  };
  Handle before = take();
  const CachingAllocator::PoolId pool = allocator_->OpenPool();
  Handle during = take();
  allocator_->ClosePool(pool);
  Handle after = take();
  before = nullptr;
  during = nullptr;
  EXPECT_EQ(transport->used(), 30 * kMiB);
  after = nullptr;  // nothing recorded knows it
  EXPECT_EQ(transport->used(), 20 * kMiB);
  allocator_->ReleasePool(pool);
  EXPECT_EQ(transport->used(), 0u);
}

TEST_F(CachingAllocatorTest, WhatIsFreedIsHandedOutAgain) {
  Make(1 << 30);
  Handle block = Take(100 * kMiB);
  void* const data = block->data();
  const int calls = memory_->calls();
  block = nullptr;
  EXPECT_EQ(memory_->used(), 100 * kMiB) << "kept";
  block = Take(100 * kMiB - 5);
  EXPECT_EQ(block->data(), data);
  EXPECT_EQ(memory_->calls(), calls);
}

TEST_F(CachingAllocatorTest, SmallRequestsShareASegment) {
  Make(1 << 30);
  std::vector<Handle> handles;
  for (int i = 0; i < 1000; ++i) handles.push_back(Take(static_cast<size_t>(i)));
  EXPECT_EQ(memory_->used(), CachingAllocator::kSmallSegmentBytes);
  handles.clear();
  allocator_->Trim();
  EXPECT_EQ(memory_->used(), 0u) << "joined to one block, which is a whole segment";
}

TEST_F(CachingAllocatorTest, AFullDeviceGivesWhatWasKept) {
  Make(100 * kMiB);
  Take(60 * kMiB);
  const Handle other = Take(80 * kMiB);
  EXPECT_EQ(memory_->used(), 80 * kMiB);
}

TEST_F(CachingAllocatorTest, TheLastMemoryIsUsedWithoutRoundingASegmentUp) {
  Make(20 * kMiB);
  const Handle small = Take(8 * kMiB);
  EXPECT_EQ(memory_->used(), 8 * kMiB) << "a segment of 32 MiB does not fit";
}

TEST_F(CachingAllocatorTest, AnErrorSaysHowMuchIsInUse) {
  Make(10 * kMiB);
  const Handle held = Take(6 * kMiB);
  const absl::Status status = allocator_->Allocate(6 * kMiB, MemoryCategory::kGradients).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"6291456 bytes for gradients", "6291456 bytes in use"}) {
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
  }
}

TEST_F(CachingAllocatorTest, ExactBlocksAreSeparateSegments) {
  Make(1 << 30, /*exact=*/true);
  const Handle first = Take(7);
  const Handle second = Take(3 * kMiB + 1);
  EXPECT_EQ(memory_->used(), 7 + 3 * kMiB + 1);
}

// Compares with a model that only remembers the blocks in use: no two overlap, all lie in segments,
// the account is right, and everything is returned.
TEST_F(CachingAllocatorTest, RandomUse) {
  for (const bool exact : {false, true}) {
    Make(size_t{3} << 30, exact);
    std::mt19937_64 random(20 + exact);
    std::map<uintptr_t, Handle> out;
    int64_t bytes_out = 0;
    int64_t peak = 0;
    for (int i = 0; i < 20000; ++i) {
      if (!out.empty() && random() % 100 < 48) {
        auto victim = out.lower_bound(random() % (uintptr_t{1} << 34));
        if (victim == out.end()) victim = out.begin();
        bytes_out -= static_cast<int64_t>(victim->second->bytes());
        out.erase(victim);
        continue;
      }
      const int magnitude = static_cast<int>(random() % 27);
      const size_t bytes = random() % ((size_t{1} << magnitude) + 1);
      if (bytes_out + static_cast<int64_t>(bytes) > (int64_t{1} << 30)) continue;
      Handle handle = Take(bytes);
      ASSERT_NE(handle, nullptr);
      const auto begin = reinterpret_cast<uintptr_t>(handle->data());
      if (!exact) {
        ASSERT_EQ(begin % CachingAllocator::kAlignment, 0u);
      }
      ASSERT_TRUE(memory_->Contains(handle->data(), bytes));
      const auto after = out.lower_bound(begin);
      if (after != out.end()) {
        ASSERT_LE(begin + bytes, after->first);
      }
      if (after != out.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second->bytes(), begin);
      }
      bytes_out += static_cast<int64_t>(bytes);
      peak = std::max(peak, bytes_out);
      out[begin] = std::move(handle);
      const MemoryStats stats = allocator_->stats();
      ASSERT_EQ(stats.total.current_bytes, bytes_out);
      ASSERT_EQ(stats.total.peak_bytes, peak);
      ASSERT_EQ(stats.reserved_bytes, static_cast<int64_t>(memory_->used()));
    }
    out.clear();
    allocator_->Trim();
    EXPECT_EQ(memory_->used(), 0u);
  }
}

constexpr size_t kPiece = 20 * kMiB;  // gets its own segment

TEST_F(CachingAllocatorTest, APoolTakesWhatNobodyUsesAndGivesItBackAtItsRelease) {
  Make(1 << 30);
  Take(kPiece);
  Take(3 * kPiece);
  const int calls = memory_->calls();
  const CachingAllocator::PoolId pool = allocator_->OpenPool();
  void* const recorded = Take(kPiece)->data();
  EXPECT_EQ(Take(kPiece)->data(), recorded) << "inside, what is freed is handed out again";
  EXPECT_EQ(memory_->calls(), calls);
  allocator_->ClosePool(pool);

  const Handle outside = Take(kPiece);
  EXPECT_NE(outside->data(), recorded);
  EXPECT_EQ(memory_->calls(), calls + 1);
  Take(3 * kPiece);
  EXPECT_EQ(memory_->calls(), calls + 1) << "the pool had no use for this segment";
  allocator_->Trim();
  EXPECT_TRUE(memory_->Contains(recorded, kPiece));

  allocator_->ReleasePool(pool);
  EXPECT_EQ(Take(kPiece)->data(), recorded);
  EXPECT_EQ(memory_->calls(), calls + 1);
}

TEST_F(CachingAllocatorTest, APoolHoldsWhatWasInUseWhenItWasRecorded) {
  Make(1 << 30);
  Handle before = Take(kPiece);
  void* const data = before->data();
  const CachingAllocator::PoolId first = allocator_->OpenPool();
  allocator_->ClosePool(first);
  const CachingAllocator::PoolId second = allocator_->OpenPool();
  allocator_->ClosePool(second);
  before = nullptr;
  EXPECT_EQ(allocator_->stats().total.current_bytes, 0) << "its owner has no more to do with it";
  Handle younger = Take(kPiece);
  EXPECT_NE(younger->data(), data);
  void* const younger_data = younger->data();
  younger = nullptr;
  EXPECT_EQ(Take(kPiece)->data(), younger_data) << "no recording knows what came later";
  allocator_->ReleasePool(first);
  const Handle other = Take(kPiece);
  EXPECT_NE(Take(kPiece)->data(), data) << "the second recording may still use it";
  allocator_->ReleasePool(second);
  std::vector<Handle> all;
  for (int i = 0; i < 3; ++i) all.push_back(Take(kPiece));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [&](const Handle& handle) { return handle->data() == data; }));
}

TEST_F(CachingAllocatorTest, APoolsPeakStaysChargedToItsCategories) {
  Make(1 << 30);
  const auto take = [&](size_t bytes, MemoryCategory category) {
    return *allocator_->Allocate(bytes, category);
  };
  const auto current = [&](MemoryCategory category) {
    return allocator_->stats()[category].current_bytes;
  };
  const CachingAllocator::PoolId pool = allocator_->OpenPool();
  Handle kept = take(100, MemoryCategory::kWorkspace);
  {
    const Handle activations = take(1000, MemoryCategory::kActivations);
    const Handle gradients = take(30, MemoryCategory::kGradients);
  }
  take(500, MemoryCategory::kGradients);
  allocator_->ClosePool(pool);
  EXPECT_EQ(current(MemoryCategory::kActivations), 1000);
  EXPECT_EQ(current(MemoryCategory::kGradients), 30) << "as at the peak of the sum";
  EXPECT_EQ(current(MemoryCategory::kWorkspace), 100);
  EXPECT_EQ(allocator_->stats().total.current_bytes, 1130);
  EXPECT_EQ(allocator_->stats().total.peak_bytes, 1130);
  EXPECT_EQ(allocator_->stats().total.allocations, 4);
  kept = nullptr;
  EXPECT_EQ(current(MemoryCategory::kWorkspace), 100) << "recorded work uses it all the same";
  allocator_->ReleasePool(pool);
  EXPECT_EQ(allocator_->stats().total.current_bytes, 0);
  EXPECT_EQ(allocator_->stats().total.peak_bytes, 1130);
}

TEST_F(CachingAllocatorTest, AnOwnerMayOutliveThePool) {
  Make(1 << 30);
  const CachingAllocator::PoolId pool = allocator_->OpenPool();
  Handle result = Take(1000);
  Take(1000);
  allocator_->ClosePool(pool);
  allocator_->ReleasePool(pool);
  EXPECT_EQ(allocator_->stats().total.current_bytes, 1000);
  result = nullptr;
  allocator_->Trim();
  EXPECT_EQ(memory_->used(), 0u) << "joined to one block again";
}

TEST_F(CachingAllocatorTest, AFullDeviceIsAnErrorInsideAPoolToo) {
  Make(50 * kMiB);
  Take(kPiece);
  const CachingAllocator::PoolId pool = allocator_->OpenPool();
  const Handle used = Take(kPiece);
  EXPECT_EQ(allocator_->Allocate(2 * kPiece, MemoryCategory::kGradients).status().code(),
            absl::StatusCode::kResourceExhausted);
  allocator_->ClosePool(pool);
  allocator_->ReleasePool(pool);
}

// Compares with a model of the memory that recordings may use: none of it is handed to others.
TEST_F(CachingAllocatorTest, RandomUseWithPools) {
  for (const bool exact : {false, true}) {
    Make(size_t{3} << 30, exact);
    std::mt19937_64 random(70 + exact);
    struct Recording {
      CachingAllocator::PoolId pool;
      std::map<uintptr_t, size_t> touches;
    };
    std::vector<Recording> recordings;
    std::vector<Handle> out;
    bool open = false;
    for (int i = 0; i < 6000; ++i) {
      const uint64_t choice = random() % 100;
      if (choice == 0 && !open && recordings.size() < 3) {
        Recording recording{allocator_->OpenPool(), {}};
        for (const Handle& handle : out) {
          recording.touches[reinterpret_cast<uintptr_t>(handle->data())] = handle->bytes();
        }
        recordings.push_back(std::move(recording));
        open = true;
      } else if (choice == 1 && open) {
        allocator_->ClosePool(recordings.back().pool);
        open = false;
      } else if (choice == 2 && !open && !recordings.empty()) {
        const auto victim = recordings.begin() + static_cast<int>(random() % recordings.size());
        allocator_->ReleasePool(victim->pool);
        recordings.erase(victim);
      } else if (choice == 3) {
        allocator_->Trim();
      } else if (!out.empty() && choice < 50) {
        std::swap(out[random() % out.size()], out.back());
        out.pop_back();
      } else {
        const size_t bytes = 1 + random() % (size_t{1} << (random() % 25));
        const Handle handle = Take(bytes);
        ASSERT_NE(handle, nullptr);
        const auto begin = reinterpret_cast<uintptr_t>(handle->data());
        ASSERT_TRUE(memory_->Contains(handle->data(), bytes));
        for (const Handle& other : out) {
          const auto at = reinterpret_cast<uintptr_t>(other->data());
          ASSERT_TRUE(begin + bytes <= at || at + other->bytes() <= begin);
        }
        for (Recording& recording : recordings) {
          if (open && &recording == &recordings.back()) {
            recording.touches[begin] = std::max(recording.touches[begin], bytes);
            continue;
          }
          for (const auto& [at, size] : recording.touches) {
            ASSERT_TRUE(begin + bytes <= at || at + size <= begin) << "step " << i;
          }
        }
        out.push_back(handle);
      }
      for (const Recording& recording : recordings) {
        for (const auto& [at, size] : recording.touches) {
          ASSERT_TRUE(memory_->Contains(reinterpret_cast<void*>(at), size)) << "step " << i;
        }
      }
    }
    if (open) allocator_->ClosePool(recordings.back().pool);
    for (const Recording& recording : recordings) allocator_->ReleasePool(recording.pool);
    out.clear();
    EXPECT_EQ(allocator_->stats().total.current_bytes, 0);
    allocator_->Trim();
    EXPECT_EQ(memory_->used(), 0u);
  }
}

}  // namespace
}  // namespace zeroth::cuda
