// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kEnd = 0;

// The marks of rows are the last bits of the ids, so that marks tell where they come from.
std::shared_ptr<const TokenSource> Ids(std::vector<int32_t> ids, int64_t row = 0) {
  std::vector<uint8_t> marks;
  for (const int32_t id : ids) {
    if (row > 0) marks.push_back(static_cast<uint8_t>(id & 1));
  }
  TokenSource::Facts facts;
  facts.row_length = row;
  facts.description = "ids";
  return std::make_shared<const TokensInMemory<int32_t>>(std::move(ids), facts, std::move(marks));
}

// 1 2 3 … of `size` tokens, with documents that end at multiples of `document`; 0: none.
std::shared_ptr<const TokenSource> Stream(int32_t size, int32_t document) {
  std::vector<int32_t> ids(static_cast<size_t>(size));
  std::iota(ids.begin(), ids.end(), 1);
  for (int32_t& id : ids) {
    if (document > 0 && id % document == 0) id = kEnd;
  }
  return Ids(std::move(ids));
}

std::vector<int32_t> All(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.size()));
  EXPECT_TRUE(source.Read(0, absl::MakeSpan(ids)).ok());
  return ids;
}

// Where the held-out part begins; both parts together are the source.
int64_t BeginOf(const std::shared_ptr<const TokenSource>& source, double fraction) {
  const auto split = SplitHeldOut(source, fraction, kEnd);
  EXPECT_TRUE(split.ok()) << split.status();
  if (!split.ok()) return -1;
  std::vector<int32_t> both = All(*split->train);
  const std::vector<int32_t> held_out = All(*split->held_out);
  both.insert(both.end(), held_out.begin(), held_out.end());
  EXPECT_EQ(both, All(*source));
  return split->train->size();
}

TEST(HeldOutTest, BeginsWithADocument) {
  EXPECT_EQ(BeginOf(Stream(1000, 30), 0.1), 900);    // one begins there
  EXPECT_EQ(BeginOf(Stream(1000, 28), 0.1), 924);    // the next
  EXPECT_EQ(BeginOf(Stream(1000, 100), 0.01), 900);  // none does any more: the last before
  EXPECT_EQ(BeginOf(Stream(1000, 700), 0.01), 700);
  EXPECT_EQ(BeginOf(Stream(400'000, 150'000), 0.9), 150'000);    // far ahead
  EXPECT_EQ(BeginOf(Stream(400'000, 150'000), 0.001), 300'000);  // far behind
}

TEST(HeldOutTest, AStreamOfOneDocumentIsCutAtTheToken) {
  EXPECT_EQ(BeginOf(Stream(1000, 0), 0.1), 900);
  EXPECT_EQ(BeginOf(Stream(1000, 1000), 0.25), 750);  // nothing begins behind the last token
  EXPECT_EQ(BeginOf(Stream(2, 0), 1e-9), 1);
  EXPECT_EQ(BeginOf(Stream(2, 0), 1 - 1e-9), 1);
}

TEST(HeldOutTest, RowsStayWholeWithTheirMarks) {
  std::vector<int32_t> ids(12 * 5);
  std::iota(ids.begin(), ids.end(), 1);
  const auto rows = Ids(ids, 5);
  const auto split = SplitHeldOut(rows, 0.25, kEnd);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train->size(), 45);
  EXPECT_EQ(split->held_out->row_length(), 5);
  ASSERT_TRUE(split->held_out->has_marks());
  std::vector<uint8_t> marks(2);
  ASSERT_TRUE(split->held_out->ReadMarks(1, absl::MakeSpan(marks)).ok());
  EXPECT_THAT(marks, ::testing::ElementsAre(47 & 1, 48 & 1));
  EXPECT_EQ(split->train->Read(44, absl::MakeSpan(ids).subspan(0, 2)).code(),
            absl::StatusCode::kOutOfRange);
}

TEST(HeldOutTest, WhatCannotBeSplitIsRefused) {
  EXPECT_THAT(std::string(SplitHeldOut(Stream(1, 0), 0.1, kEnd).status().message()),
              HasSubstr("ids: has 1 token, of which no part can be held out"));
  const auto row = Ids(std::vector<int32_t>(5, 1), 5);
  EXPECT_THAT(std::string(SplitHeldOut(row, 0.1, kEnd).status().message()), HasSubstr("has 1 row"));
}

// The training data of any rank of any world in three shuffled epochs, and its evaluation data.
TEST(HeldOutTest, NoLayoutTrainsOnIt) {
  const auto split = SplitHeldOut(Stream(5000, 13), 0.1, kEnd);
  ASSERT_TRUE(split.ok()) << split.status();
  std::set<int32_t> held_out;
  for (const int64_t world : {1, 2, 4}) {
    const auto seen = [world](const std::shared_ptr<const TokenSource>& source, bool train) {
      std::set<int32_t> ids;
      for (int64_t rank = 0; rank < world; ++rank) {
        LoaderOptions options;
        options.batch_size = 4 / world;
        options.seq_len = 16;
        options.world_size = world;
        options.rank = rank;
        options.shuffle = train;
        const auto loader = DataLoader::Create(source, options);
        EXPECT_TRUE(loader.ok()) << loader.status();
        if (!loader.ok()) continue;
        for (int64_t step = 0; step < loader->distinct_windows() / 4 * (train ? 3 : 1); ++step) {
          const auto batch = loader->Load(step);
          EXPECT_TRUE(batch.ok()) << batch.status();
          if (!batch.ok()) continue;
          ids.insert(batch->inputs.begin(), batch->inputs.end());
          ids.insert(batch->targets.begin(), batch->targets.end());
        }
      }
      ids.erase(kEnd);
      return ids;
    };
    const std::set<int32_t> trained = seen(split->train, true);
    const std::set<int32_t> evaluated = seen(split->held_out, false);
    EXPECT_GT(trained.size(), 4000u);
    EXPECT_GT(evaluated.size(), 350u);
    for (const int32_t id : evaluated) EXPECT_EQ(trained.count(id), 0u) << id;
    if (held_out.empty()) held_out = evaluated;
    EXPECT_EQ(evaluated, held_out);  // at every layout the same
  }
}

}  // namespace
}  // namespace zeroth
