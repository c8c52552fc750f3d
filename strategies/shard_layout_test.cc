// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/shard_layout.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

ShardLayout MakeLayout(const std::vector<int64_t>& sizes, int shard_count,
                       int64_t min_shard_numel = 0) {
  std::vector<ParameterExtent> extents;
  for (int64_t size : sizes) extents.push_back({size, DType::kFloat32, true});
  return ShardLayout(extents, {shard_count, min_shard_numel});
}

int64_t Alignment(DType dtype) {
  return ShardLayout::kAlignmentBytes / static_cast<int64_t>(SizeOf(dtype));
}

// The parameter of each element of a segment, or -1 for padding, from a walk that shares no
// arithmetic with the layout.
std::vector<int> OwnersOf(const ShardLayout& layout, int segment) {
  std::vector<int> owners(
      static_cast<size_t>(layout.segments()[static_cast<size_t>(segment)].numel), -1);
  for (int parameter : layout.segments()[static_cast<size_t>(segment)].parameters) {
    const ShardLayout::Placement& at = layout.placement(parameter);
    EXPECT_EQ(at.segment, segment);
    for (int64_t i = 0; i < at.numel; ++i) {
      int& owner = owners[static_cast<size_t>(at.offset + i)];
      EXPECT_EQ(owner, -1) << "parameters " << owner << " and " << parameter << " overlap";
      owner = parameter;
    }
  }
  return owners;
}

void ExpectEveryElementOwnedOnce(const ShardLayout& layout,
                                 const std::vector<ParameterExtent>& extents) {
  for (int p = 0; p < layout.parameter_count(); ++p) {
    const ShardLayout::Segment& segment =
        layout.segments()[static_cast<size_t>(layout.placement(p).segment)];
    int64_t next = 0;
    for (int rank = 0; rank < layout.shard_count(); ++rank) {
      const ShardLayout::Piece piece = layout.PieceOf(p, rank);
      if (segment.replicated) {
        EXPECT_EQ(piece.begin, 0);
        EXPECT_EQ(piece.end, extents[static_cast<size_t>(p)].numel);
        next = piece.end;
        continue;
      }
      if (piece.numel() == 0) continue;
      EXPECT_EQ(piece.begin, next);  // pieces follow each other in rank order, without holes
      next = piece.end;
    }
    EXPECT_EQ(next, extents[static_cast<size_t>(p)].numel);
  }
}

// The pieces of a segment that a rank owns, in order.
std::vector<ShardLayout::Piece> Pieces(const ShardLayout& layout, int segment, int rank) {
  std::vector<ShardLayout::Piece> pieces;
  for (const int parameter : layout.segments()[static_cast<size_t>(segment)].parameters) {
    const ShardLayout::Piece piece = layout.PieceOf(parameter, rank);
    if (piece.numel() > 0) pieces.push_back(piece);
  }
  return pieces;
}

void ExpectPiecesLieWhereTheFullBufferHasThem(const ShardLayout& layout) {
  for (int s = 0; s < static_cast<int>(layout.segments().size()); ++s) {
    const ShardLayout::Segment& segment = layout.segments()[static_cast<size_t>(s)];
    const std::vector<int> owners = OwnersOf(layout, s);
    for (int rank = 0; rank < layout.shard_count(); ++rank) {
      const int64_t shard_begin = segment.replicated ? 0 : rank * segment.shard_numel;
      std::vector<int> shard(static_cast<size_t>(segment.shard_numel), -1);
      for (const ShardLayout::Piece& piece : Pieces(layout, s, rank)) {
        ASSERT_GT(piece.numel(), 0);
        ASSERT_GE(piece.shard_offset, 0);
        ASSERT_LE(piece.shard_offset + piece.numel(), segment.shard_numel);
        // An element's place in the shard is its place in the full buffer, less where the shard
        // starts.
        ASSERT_EQ(shard_begin + piece.shard_offset,
                  layout.placement(piece.parameter).offset + piece.begin);
        for (int64_t i = 0; i < piece.numel(); ++i)
          shard[static_cast<size_t>(piece.shard_offset + i)] = piece.parameter;
      }
      EXPECT_TRUE(std::equal(shard.begin(), shard.end(), owners.begin() + shard_begin));
    }
  }
}

void ExpectGapsAreExactlyThePadding(const ShardLayout& layout) {
  for (int s = 0; s < static_cast<int>(layout.segments().size()); ++s) {
    const ShardLayout::Segment& segment = layout.segments()[static_cast<size_t>(s)];
    std::vector<int> owners = OwnersOf(layout, s);
    int64_t end_of_last = 0;
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] >= 0) end_of_last = static_cast<int64_t>(i) + 1;
    }
    for (const ShardLayout::Gap& gap : layout.Gaps(s)) {
      ASSERT_GT(gap.numel, 0);
      // Between parameters there is only alignment.
      if (gap.offset < end_of_last) {
        EXPECT_LT(gap.numel, Alignment(segment.dtype));
      }
      for (int64_t i = 0; i < gap.numel; ++i) {
        int& owner = owners[static_cast<size_t>(gap.offset + i)];
        EXPECT_EQ(owner, -1);
        owner = 0;
      }
    }
    EXPECT_EQ(std::count(owners.begin(), owners.end(), -1), 0) << "padding that no gap covers";
  }
}

void ExpectSegmentsAreWellFormed(const ShardLayout& layout,
                                 const std::vector<ParameterExtent>& extents,
                                 int64_t min_shard_numel) {
  for (const ShardLayout::Segment& segment : layout.segments()) {
    const int64_t alignment = Alignment(segment.dtype);
    EXPECT_EQ(segment.numel, segment.shard_numel * (segment.replicated ? 1 : layout.shard_count()));
    EXPECT_FALSE(segment.parameters.empty());
    int64_t used = 0;
    for (int p : segment.parameters) {
      const ParameterExtent& extent = extents[static_cast<size_t>(p)];
      EXPECT_EQ(extent.dtype, segment.dtype);
      EXPECT_EQ(extent.trainable, segment.trainable);
      EXPECT_EQ(layout.shard_count() > 1 && extent.numel < min_shard_numel, segment.replicated);
      EXPECT_EQ(layout.placement(p).offset % alignment, 0);
      if (extent.numel > 0) used = layout.placement(p).offset + extent.numel;
    }
    // Less than one alignment unit per rank beyond the padding of division, and none for small
    // shards.
    const int64_t shards = segment.replicated ? 1 : layout.shard_count();
    const int64_t exact = (used + shards - 1) / shards;
    EXPECT_GE(segment.shard_numel, exact);
    EXPECT_LT(segment.shard_numel - exact, alignment);
    if (exact < 64 * alignment) {
      EXPECT_EQ(segment.shard_numel, exact);
    } else {
      EXPECT_EQ(segment.shard_numel % alignment, 0);
    }
  }
}

TEST(ShardLayoutTest, HoldsItsPropertiesForRandomParameters) {
  std::mt19937 random(20260101);
  const int64_t sizes[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 64, 97, 127, 256, 1009, 4099};
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16};
  for (int round = 0; round < 60; ++round) {
    std::vector<ParameterExtent> extents(random() % 8);
    for (ParameterExtent& extent : extents) {
      extent = {sizes[random() % std::size(sizes)], dtypes[random() % 4 == 0], random() % 4 != 0};
    }
    for (int shard_count = 1; shard_count <= 9; ++shard_count) {
      const int64_t min_shard_numel = random() % 2 == 0 ? 0 : sizes[random() % std::size(sizes)];
      const ShardLayout layout(extents, {shard_count, min_shard_numel});
      ASSERT_EQ(layout.parameter_count(), static_cast<int>(extents.size()));
      ExpectSegmentsAreWellFormed(layout, extents, min_shard_numel);
      ExpectEveryElementOwnedOnce(layout, extents);
      ExpectPiecesLieWhereTheFullBufferHasThem(layout);
      ExpectGapsAreExactlyThePadding(layout);
      ASSERT_FALSE(HasFailure()) << "round " << round << ", " << shard_count << " shards";
    }
  }
}

TEST(ShardLayoutTest, CutsFourElementsInTwoHalves) {
  const ShardLayout layout = MakeLayout({4}, 2);
  const ShardLayout::Piece first = layout.PieceOf(0, 0);
  const ShardLayout::Piece second = layout.PieceOf(0, 1);
  EXPECT_EQ(first.begin, 0);
  EXPECT_EQ(first.end, 2);
  EXPECT_EQ(second.begin, 2);
  EXPECT_EQ(second.end, 4);
  EXPECT_EQ(second.shard_offset, 0);
}

TEST(ShardLayoutTest, Cuts1024ElementsIntoExactEighths) {
  const ShardLayout layout = MakeLayout({1024}, 8);
  EXPECT_EQ(layout.segments()[0].numel, 1024);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(layout.PieceOf(0, rank).begin, 128 * rank);
    EXPECT_EQ(layout.PieceOf(0, rank).numel(), 128);
  }
  EXPECT_TRUE(layout.Gaps(0).empty());
}

TEST(ShardLayoutTest, MoreRanksThanElementsLeavesTheLastOnesEmpty) {
  const ShardLayout layout = MakeLayout({3}, 5);
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(layout.PieceOf(0, rank).numel(), rank < 3 ? 1 : 0);
}

TEST(ShardLayoutTest, OneShardIsNotPadded) {
  const ShardLayout layout = MakeLayout({5, 7}, 1);
  EXPECT_EQ(layout.segments()[0].numel, 16 + 7);
  EXPECT_EQ(layout.segments()[0].shard_numel, layout.segments()[0].numel);
}

TEST(ShardLayoutTest, EmptyParametersTakeNoPlace) {
  const ShardLayout layout = MakeLayout({0, 5, 0, 0}, 3);
  EXPECT_EQ(layout.segments()[0].numel, 6);
  const ShardLayout nothing = MakeLayout({0, 0}, 3);
  ASSERT_EQ(nothing.segments().size(), 1u);
  EXPECT_EQ(nothing.segments()[0].numel, 0);
  EXPECT_TRUE(nothing.Gaps(0).empty());
  EXPECT_TRUE(MakeLayout({}, 3).segments().empty());
}

TEST(ShardLayoutTest, SegmentsSeparateWhatTravelsSeparately) {
  const ShardLayout layout({{100, DType::kFloat32, true},
                            {100, DType::kFloat32, false},
                            {100, DType::kBFloat16, true},
                            {3, DType::kFloat32, true},
                            {200, DType::kFloat32, true}},
                           {2, 10});
  ASSERT_EQ(layout.segments().size(), 4u);
  EXPECT_EQ(layout.segments()[0].parameters, (std::vector<int>{0, 4}));
  EXPECT_FALSE(layout.segments()[1].trainable);
  EXPECT_EQ(layout.segments()[2].dtype, DType::kBFloat16);
  EXPECT_TRUE(layout.segments()[3].replicated);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(layout.PieceOf(3, rank).numel(), 3);
}

TEST(ShardLayoutTest, LargeShardsStartAligned) {
  const ShardLayout layout = MakeLayout({100003}, 3);
  EXPECT_EQ(layout.segments()[0].shard_numel % Alignment(DType::kFloat32), 0);
  EXPECT_LT(layout.segments()[0].numel, 100003 + 3 * Alignment(DType::kFloat32));
}

TEST(ShardLayoutTest, BlocksAreOfOneParameterAndOneRank) {
  std::mt19937 random(20260202);
  for (int round = 0; round < 200; ++round) {
    const int64_t block = std::vector<int64_t>{2, 128, 100}[random() % 3];
    std::vector<int64_t> sizes(1 + random() % 6);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 1000);
    std::vector<ParameterExtent> extents;
    for (const int64_t size : sizes) extents.push_back({size, DType::kFloat32, true});
    LayoutOptions options;
    options.shard_count = 1 + static_cast<int>(random() % 9);
    options.block_numel = block;
    const ShardLayout layout(extents, options);
    EXPECT_EQ(layout.block_numel(), block);
    ExpectEveryElementOwnedOnce(layout, extents);
    ExpectPiecesLieWhereTheFullBufferHasThem(layout);
    for (int rank = 0; rank < layout.shard_count(); ++rank) {
      for (const ShardLayout::Piece& piece : Pieces(layout, 0, rank)) {
        EXPECT_EQ(piece.begin % block, 0);
        EXPECT_EQ(piece.shard_offset % block, 0);
        const bool is_last = piece.end == sizes[static_cast<size_t>(piece.parameter)];
        EXPECT_TRUE(is_last || piece.end % block == 0);
      }
    }
    int64_t padding = 0;
    for (const ShardLayout::Gap& gap : layout.Gaps(0)) padding += gap.numel;
    int64_t used = 0;
    for (const int64_t size : sizes) used += size;
    EXPECT_EQ(layout.segments()[0].numel, used + padding);
    // Less than a block for each parameter and each shard, alignment included.
    const int64_t unit = std::lcm(block, Alignment(DType::kFloat32));
    EXPECT_LT(padding, unit * (static_cast<int64_t>(sizes.size()) + layout.shard_count()));
  }
}

ShardLayout RowsLayout(const std::vector<ParameterExtent>& extents, int shard_count,
                       int64_t min_shard_numel = 0) {
  LayoutOptions options;
  options.shard_count = shard_count;
  options.min_shard_numel = min_shard_numel;
  options.kind = LayoutKind::kRows;
  return ShardLayout(extents, options);
}

// The rows of one parameter on each rank. Also checks where empty pieces lie.
std::vector<int64_t> RowsOfRanks(int64_t rows, int64_t row_numel, int shard_count) {
  const ShardLayout layout =
      RowsLayout({{rows * row_numel, DType::kFloat32, true, row_numel}}, shard_count);
  std::vector<int64_t> counts;
  for (int rank = 0; rank < shard_count; ++rank) {
    const ShardLayout::Piece piece = layout.PieceOf(0, rank);
    EXPECT_EQ(piece.begin % row_numel, 0);
    EXPECT_EQ(piece.numel() % row_numel, 0);
    EXPECT_LE(piece.end, rows * row_numel);
    if (piece.numel() == 0) {
      EXPECT_EQ(piece.begin, rows * row_numel) << "an empty piece starts behind the last row";
    }
    counts.push_back(piece.numel() / row_numel);
  }
  return counts;
}

TEST(ShardLayoutTest, RowsGoToRanksInEqualShares) {
  using Counts = std::vector<int64_t>;
  for (const int64_t row_numel : {1, 3, 64}) {
    EXPECT_EQ(RowsOfRanks(5, row_numel, 4), (Counts{2, 2, 1, 0}));
    EXPECT_EQ(RowsOfRanks(9, row_numel, 8), (Counts{2, 2, 2, 2, 1, 0, 0, 0}));
    EXPECT_EQ(RowsOfRanks(1, row_numel, 4), (Counts{1, 0, 0, 0}));
    EXPECT_EQ(RowsOfRanks(8, row_numel, 4), (Counts{2, 2, 2, 2}));
    EXPECT_EQ(RowsOfRanks(7, row_numel, 1), (Counts{7}));
    EXPECT_EQ(RowsOfRanks(0, row_numel, 3), (Counts{0, 0, 0}));
  }
}

TEST(ShardLayoutTest, RowsHoldTheirPropertiesForRandomParameters) {
  std::mt19937 random(20260303);
  for (int round = 0; round < 60; ++round) {
    std::vector<ParameterExtent> extents(1 + random() % 6);
    for (ParameterExtent& extent : extents) {
      const int64_t row_numel = std::vector<int64_t>{1, 2, 7, 16, 33}[random() % 5];
      const auto rows = static_cast<int64_t>(random() % 20);
      extent = {rows * row_numel, DType::kFloat32, random() % 4 != 0, row_numel};
    }
    for (int shard_count = 2; shard_count <= 9; ++shard_count) {
      const int64_t min_shard_numel = random() % 2 == 0 ? 0 : 40;
      const ShardLayout layout = RowsLayout(extents, shard_count, min_shard_numel);
      ASSERT_EQ(layout.parameter_count(), static_cast<int>(extents.size()));
      ExpectEveryElementOwnedOnce(layout, extents);
      ExpectPiecesLieWhereTheFullBufferHasThem(layout);
      for (int s = 0; s < static_cast<int>(layout.segments().size()); ++s) {
        const ShardLayout::Segment& segment = layout.segments()[static_cast<size_t>(s)];
        if (segment.replicated) continue;
        // A parameter is a segment, padded at its end to equal shards.
        ASSERT_EQ(segment.parameters.size(), 1u);
        const ParameterExtent& extent = extents[static_cast<size_t>(segment.parameters[0])];
        EXPECT_EQ(layout.placement(segment.parameters[0]).offset, 0);
        const int64_t rows = extent.numel / extent.row_numel;
        const int64_t share = (rows + shard_count - 1) / shard_count;
        EXPECT_EQ(segment.shard_numel, share * extent.row_numel);
        const std::vector<ShardLayout::Gap> gaps = layout.Gaps(s);
        const int64_t padding = segment.numel - extent.numel;
        EXPECT_LT(padding, shard_count * extent.row_numel);
        ASSERT_EQ(gaps.size(), padding > 0 ? 1u : 0u);
        if (padding > 0) {
          EXPECT_EQ(gaps[0].offset, extent.numel);
          EXPECT_EQ(gaps[0].numel, padding);
        }
      }
      ASSERT_FALSE(HasFailure()) << "round " << round << ", " << shard_count << " shards";
    }
  }
}

TEST(ShardLayoutDeathTest, RefusesWhatNoCallerMayPass) {
  EXPECT_DEATH(MakeLayout({4}, 0), "shard_count_ >= 1");
  EXPECT_DEATH(MakeLayout({-1}, 2), "numel >= 0");
  EXPECT_DEATH(MakeLayout({4}, 2).PieceOf(0, 2), "rank");
}

}  // namespace
}  // namespace zeroth
