// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/loader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Token i is i, so that a batch tells where it came from.
class Counting final : public TokenSource {
 public:
  explicit Counting(int64_t size, int64_t row_length = 0)
      : TokenSource({size, row_length, false, "numbers", {}}) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    for (int32_t& id : out) id = static_cast<int32_t>(begin++);
    return absl::OkStatus();
  }
};

DataLoader Make(int64_t tokens, LoaderOptions options, int64_t row_length = 0) {
  auto loader = DataLoader::Create(std::make_shared<Counting>(tokens, row_length), options);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return *std::move(loader);
}

// The first input of each row of `steps` batches.
std::vector<int32_t> RowStarts(const DataLoader& loader, int64_t steps, int64_t first_step = 0) {
  std::vector<int32_t> starts;
  for (int64_t step = first_step; step < first_step + steps; ++step) {
    const auto batch = loader.Load(step);
    EXPECT_TRUE(batch.ok()) << batch.status();
    for (int64_t row = 0; row < batch->batch; ++row) {
      const size_t begin = static_cast<size_t>(row * batch->seq);
      starts.push_back(batch->inputs[begin]);
      // Inputs and targets count on from there.
      for (size_t i = 0; i < static_cast<size_t>(batch->seq); ++i) {
        EXPECT_EQ(batch->inputs[begin + i], starts.back() + static_cast<int32_t>(i));
        EXPECT_EQ(batch->targets[begin + i], starts.back() + static_cast<int32_t>(i) + 1);
      }
    }
  }
  return starts;
}

TEST(DataLoaderTest, MarksTheRowsThatItLoads) {
  constexpr int64_t kRows = 25;
  for (const bool shuffle : {false, true}) {
    for (const bool once : {false, true}) {
      const LoaderOptions options{
          .batch_size = 2, .seq_len = 3, .world_size = 2, .shuffle = shuffle, .once = once};
      const DataLoader loader = Make(4 * kRows, options, /*row_length=*/4);
      for (const auto& [step, steps] : {std::pair<int64_t, int64_t>(0, 3), {2, 4}, {0, 20}}) {
        std::vector<bool> expected(kRows);
        for (int64_t rank = 0; rank < 2; ++rank) {
          LoaderOptions of_rank = options;
          of_rank.rank = rank;
          const DataLoader other = Make(4 * kRows, of_rank, /*row_length=*/4);
          for (int64_t at = step; at < step + steps; ++at) {
            const auto batch = other.Load(at);
            ASSERT_TRUE(batch.ok()) << batch.status();
            for (size_t i = 0; i < batch->inputs.size(); i += 3) {
              if (batch->targets[i] == kIgnoredTarget) continue;  // after the last row
              expected[static_cast<size_t>(batch->inputs[i] / 4)] = true;
            }
          }
        }
        RowMask rows;
        loader.MarkRows(4 * step, 4 * steps, rows);
        EXPECT_EQ(rows, RowMask{expected});
      }
      // All at once, and no more marks after all rows are marked.
      RowMask all;
      loader.MarkRows(0, std::numeric_limits<int64_t>::max(), all);
      EXPECT_EQ(all, RowMask{std::vector<bool>(kRows, true)});
    }
  }
}

TEST(DataLoaderTest, ResumesARunOfAnotherGlobalBatch) {
  for (const bool shuffle : {false, true}) {
    LoaderOptions options{.batch_size = 2, .seq_len = 3, .world_size = 1, .shuffle = shuffle};
    const std::vector<int32_t> whole = RowStarts(Make(100, options), 60);
    // Five steps of 2, then steps of 3 from step 5 on, and steps of 1: fewer windows, then more,
    // than the steps so far would take.
    for (const int64_t batch : {3, 1}) {
      options.batch_size = batch;
      options.first_window = 10 - 5 * batch;
      const DataLoader loader = Make(100, options);
      const std::vector<int32_t> rest = RowStarts(loader, 30, 5);
      EXPECT_EQ(rest, std::vector<int32_t>(whole.begin() + 10, whole.begin() + 10 + 30 * batch));
    }
    options.batch_size = 3;
    options.first_window = -5;
    EXPECT_EQ(Make(100, options).Load(1).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_TRUE(Make(100, options).Load(2).ok());
  }
}

TEST(DataLoaderTest, StreamInOrderWrapsAround) {
  // 11 tokens: windows at 0, 3, 6; token 10 is left over.
  const DataLoader loader = Make(11, {.batch_size = 2, .seq_len = 3, .shuffle = false});
  EXPECT_EQ(loader.distinct_windows(), 3);
  EXPECT_THAT(RowStarts(loader, 4), ElementsAre(0, 3, 6, 0, 3, 6, 0, 3));
}

TEST(DataLoaderTest, RowsInOrder) {
  const DataLoader loader = Make(20, {.batch_size = 2, .seq_len = 4, .shuffle = false}, 5);
  EXPECT_EQ(loader.distinct_windows(), 4);
  EXPECT_THAT(RowStarts(loader, 3), ElementsAre(0, 5, 10, 15, 0, 5));
}

TEST(DataLoaderTest, TheSmallestStreamIsOneWindow) {
  EXPECT_THAT(RowStarts(Make(5, {.batch_size = 3, .seq_len = 4}), 1), ElementsAre(0, 0, 0));
}

TEST(DataLoaderTest, RanksShareAGlobalBatchWhateverTheWorldSize) {
  for (const bool shuffle : {false, true}) {
    for (const int64_t row_length : {0, 8}) {
      const DataLoader whole =
          Make(800, {.batch_size = 8, .seq_len = 7, .seed = 9, .shuffle = shuffle}, row_length);
      for (const int64_t world_size : {2, 4, 8}) {
        for (int64_t step = 0; step < 30; ++step) {
          std::vector<int32_t> gathered;
          for (int64_t rank = 0; rank < world_size; ++rank) {
            const DataLoader part = Make(800,
                                         {.batch_size = 8 / world_size,
                                          .seq_len = 7,
                                          .world_size = world_size,
                                          .rank = rank,
                                          .seed = 9,
                                          .shuffle = shuffle},
                                         row_length);
            const std::vector<int32_t> starts = RowStarts(part, 1, step);
            gathered.insert(gathered.end(), starts.begin(), starts.end());
          }
          ASSERT_EQ(gathered, RowStarts(whole, 1, step));
        }
      }
    }
  }
}

TEST(DataLoaderTest, AShuffledEpochUsesEachWindowOnceAtOneOffset) {
  // 100 tokens of 7: 14 windows, and 1 token of slack.
  const DataLoader loader = Make(100, {.batch_size = 1, .seq_len = 7, .seed = 3});
  ASSERT_EQ(loader.distinct_windows(), 14);
  std::set<int32_t> offsets;
  std::set<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int32_t> starts = RowStarts(loader, 14, 14 * epoch);
    orders.insert(starts);
    std::sort(starts.begin(), starts.end());
    offsets.insert(starts[0]);
    for (size_t i = 0; i < starts.size(); ++i)
      ASSERT_EQ(starts[i], starts[0] + 7 * static_cast<int32_t>(i));
  }
  EXPECT_EQ(offsets, (std::set<int32_t>{0, 1}));
  EXPECT_EQ(orders.size(), 20u);
}

TEST(DataLoaderTest, AShuffledEpochUsesEachRowOnce) {
  const DataLoader loader = Make(60, {.batch_size = 2, .seq_len = 4, .seed = 3}, 5);
  std::vector<int32_t> starts = RowStarts(loader, 6);
  EXPECT_FALSE(std::is_sorted(starts.begin(), starts.end()));
  std::sort(starts.begin(), starts.end());
  EXPECT_THAT(starts, ElementsAre(0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55));
}

// An evaluation reads each row once, whatever the batch and the number of ranks. Rows behind the
// last one have no targets, and batches that have some say how many targets count.
TEST(DataLoaderTest, OnceReadsEveryRowOnce) {
  for (const int64_t rows : {1, 5, 8}) {
    for (const int64_t batch : {1, 2, 4, 8}) {
      for (const int64_t micro_batches : {1, 2, 3}) {
        std::map<int32_t, int> times;
        int64_t counted = 0;
        const int64_t per_step = batch * micro_batches;
        for (int64_t step = 0; step * per_step < rows; ++step) {
          for (int64_t rank = 0; rank < (batch > 1 ? 2 : 1); ++rank) {
            const int64_t world = batch > 1 ? 2 : 1;
            const DataLoader loader = Make(rows * 5 + 3,
                                           {.batch_size = batch / world,
                                            .seq_len = 4,
                                            .world_size = world,
                                            .rank = rank,
                                            .shuffle = false,
                                            .once = true},
                                           /*row_length=*/5);
            ASSERT_EQ(loader.distinct_windows(), rows);
            const auto loaded = loader.LoadMany(step * micro_batches, micro_batches);
            ASSERT_TRUE(loaded.ok()) << loaded.status();
            const bool whole = (step + 1) * per_step <= rows;
            for (const Batch& part : *loaded) {
              if (whole) {
                EXPECT_EQ(part.counted, std::nullopt);
              }
              counted += rank == 0 ? (whole ? batch * 4 : *part.counted) : 0;
              for (size_t i = 0; i < part.targets.size(); i += 4) {
                if (part.targets[i] == kIgnoredTarget) {
                  EXPECT_EQ(
                      std::count(part.targets.begin() + static_cast<long>(i),
                                 part.targets.begin() + static_cast<long>(i) + 4, kIgnoredTarget),
                      4);
                } else {
                  ++times[part.inputs[i]];
                }
              }
            }
          }
        }
        EXPECT_EQ(times.size(), static_cast<size_t>(rows)) << batch << " " << micro_batches;
        for (const auto& [row, count] : times) EXPECT_EQ(count, 1) << row;
        EXPECT_EQ(counted, rows * 4) << batch << " " << micro_batches;
      }
    }
  }
}

TEST(DataLoaderTest, SeedsDifferAndStepsAreTheWholeState) {
  const LoaderOptions options = {.batch_size = 4, .seq_len = 7, .seed = 1};
  LoaderOptions other = options;
  other.seed = 2;
  EXPECT_NE(RowStarts(Make(1000, options), 10), RowStarts(Make(1000, other), 10));
  const DataLoader used = Make(1000, options);
  RowStarts(used, 50);
  EXPECT_EQ(RowStarts(used, 5, 100), RowStarts(Make(1000, options), 5, 100));
}

TEST(DataLoaderTest, ReferenceTokensComeStepByStep) {
  const auto source = OpenNpyFile("tests/testdata/llama_tiny/tokens.npy", 257);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<int32_t> all(static_cast<size_t>((*source)->size()));
  ASSERT_TRUE((*source)->Read(0, absl::MakeSpan(all)).ok());
  const auto loader = DataLoader::Create(
      *source, {.batch_size = 2, .seq_len = 32, .world_size = 4, .rank = 3, .shuffle = false});
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ(loader->distinct_windows(), 160);
  const auto batch = loader->Load(19);
  ASSERT_TRUE(batch.ok()) << batch.status();
  // Row 8 * 19 + 3 * 2 and the next.
  for (size_t row = 0; row < 2; ++row) {
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(batch->inputs[row * 32 + i], all[(158 + row) * 33 + i]);
      EXPECT_EQ(batch->targets[row * 32 + i], all[(158 + row) * 33 + i + 1]);
    }
  }
}

TEST(DataLoaderTest, RefusesWhatCannotWork) {
  const auto error = [](int64_t tokens, const LoaderOptions& options, int64_t row_length = 0) {
    const auto loader = DataLoader::Create(std::make_shared<Counting>(tokens, row_length), options);
    EXPECT_EQ(loader.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loader.status().message());
  };
  EXPECT_THAT(error(7, {.seq_len = 7}),
              HasSubstr("numbers: 7 tokens, but one sequence of seq_len 7 needs 8"));
  EXPECT_THAT(error(60, {.seq_len = 7}, 6), HasSubstr("rows of 6 tokens need seq_len 5"));
  EXPECT_THAT(error(60, {.batch_size = 0}), HasSubstr("batch_size is 0"));
  EXPECT_THAT(error(60, {.seq_len = 0}), HasSubstr("seq_len is 0"));
  EXPECT_THAT(error(60, {.world_size = 0}), HasSubstr("world_size is 0"));
  EXPECT_THAT(error(60, {.world_size = 2, .rank = 2}), HasSubstr("rank is 2, expected 0 to 1"));
  EXPECT_THAT(error(60, {.rank = -1}), HasSubstr("rank is -1"));
  const int64_t most = int64_t{1} << 30;
  EXPECT_THAT(error(60, {.batch_size = most, .seq_len = most, .world_size = most}),
              HasSubstr("overflows"));
}

TEST(DataLoaderTest, StepsThatCannotBeCountedAreErrors) {
  const DataLoader loader = Make(100, {.batch_size = 4, .seq_len = 7});
  EXPECT_EQ(loader.Load(-1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(loader.Load(std::numeric_limits<int64_t>::max()).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(loader.Load(std::numeric_limits<int64_t>::max() / 4 - 1).ok());
}

}  // namespace
}  // namespace zeroth
