// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/data/loader.h"
#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

// Token i is i. Counts reads, and waits in them, or fails, if it is told to.
class GatedSource final : public TokenSource {
 public:
  explicit GatedSource(int64_t fails_at = -1)
      : TokenSource({1001, 0, false, "gated", {}}), fails_at_(fails_at) {}

  void Open() const { gate_.Notify(); }
  // Whether this many rows are read within a time that suffices on a loaded machine.
  bool WaitForReads(int64_t count) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return reads_ >= count; });
  }
  int64_t reads() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return reads_;
  }

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    gate_.WaitForNotification();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++reads_;
    }
    changed_.notify_one();
    if (begin == fails_at_) return absl::DataLossError(absl::StrCat("token ", begin));
    for (int32_t& id : out) id = static_cast<int32_t>(begin++);
    return absl::OkStatus();
  }

  const int64_t fails_at_;
  mutable absl::Notification gate_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::condition_variable changed_;
  mutable int64_t reads_ = 0;
};

DataLoader LoaderOf(std::shared_ptr<const TokenSource> source) {
  LoaderOptions options;
  options.seq_len = 10;
  options.shuffle = false;
  return *DataLoader::Create(std::move(source), options);
}

TEST(BatchPrefetcherTest, GivesWhatTheLoaderDoes) {
  const auto source = std::make_shared<GatedSource>();
  source->Open();
  const DataLoader loader = LoaderOf(source);
  BatchPrefetcher prefetcher(loader, 3, 4, 20);
  for (int64_t step = 4; step < 20; ++step) {
    const auto batches = prefetcher.Next();
    ASSERT_TRUE(batches.ok()) << batches.status();
    ASSERT_EQ(batches->size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const Batch expected = *loader.Load(step * 3 + static_cast<int64_t>(i));
      EXPECT_EQ((*batches)[i].inputs, expected.inputs);
      EXPECT_EQ((*batches)[i].targets, expected.targets);
    }
  }
  EXPECT_EQ(prefetcher.Next().status().code(), absl::StatusCode::kOutOfRange);
}

// Without a consumer, this many steps are read, and no more; each Next makes room.
TEST(BatchPrefetcherTest, LoadsWhileNobodyAsksAndNoFurther) {
  const auto source = std::make_shared<GatedSource>();
  source->Open();
  BatchPrefetcher prefetcher(LoaderOf(source), 2, 0, 50);
  constexpr auto kReads = static_cast<int64_t>(2 * BatchPrefetcher::kSteps);
  EXPECT_TRUE(source->WaitForReads(kReads));
  for (int64_t taken = 1; taken <= 5; ++taken) {
    EXPECT_LE(source->reads(), kReads + 2 * (taken - 1));
    ASSERT_TRUE(prefetcher.Next().ok());
    EXPECT_TRUE(source->WaitForReads(kReads + 2 * taken));
  }
}

TEST(BatchPrefetcherTest, AnErrorComesInItsTurnAndStays) {
  const auto source = std::make_shared<GatedSource>(/*fails_at=*/30);
  source->Open();
  BatchPrefetcher prefetcher(LoaderOf(source), 1, 0, 50);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(prefetcher.Next().ok());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(prefetcher.Next().status(), absl::DataLossError("token 30"));
  }
}

// Its end ends the thread, whether that reads or waits for room.
TEST(BatchPrefetcherTest, EndsAtAnyTime) {
  for (const int taken : {0, 1}) {
    const auto source = std::make_shared<GatedSource>();
    auto prefetcher = std::make_unique<BatchPrefetcher>(LoaderOf(source), 1, 0, 50);
    source->Open();
    for (int i = 0; i < taken; ++i) EXPECT_TRUE(prefetcher->Next().ok());
    prefetcher.reset();
  }
}

}  // namespace
}  // namespace zeroth
