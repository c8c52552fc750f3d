// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of groups: Split, Duplicate, Mesh. See communicator_test_suite.h.

#pragma once

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"

namespace zeroth::testing {

// World ranks of the group, in its order, as its own all-gather tells them.
inline absl::StatusOr<std::vector<int32_t>> Members(Communicator& group, TestRank& rank) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor mine,
                          ToDevice(rank.device, std::vector<int32_t>{rank.rank()}));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor all,
      ToDevice(rank.device, std::vector<int32_t>(static_cast<size_t>(group.size()), -1)));
  ZEROTH_RETURN_IF_ERROR(group.AllGather(mine, all, rank.stream, "members"));
  return Fetch<int32_t>(all, rank.stream);
}

TEST_P(CommunicatorTest, SplitGroupsByColorAndOrdersByKeyThenRank) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    const int color = rank.rank() % 2;
    // Descending keys, in pairs that are equal.
    ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.Split(color, -(rank.rank() / 4)));
    std::vector<int32_t> expected;
    for (int block = (rank.size() - 1) / 4; block >= 0; --block) {
      for (int r = block * 4; r < std::min(block * 4 + 4, rank.size()); ++r) {
        if (r % 2 == color) expected.push_back(r);
      }
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> members, Members(*group, rank));
    EXPECT_EQ(members, expected);
    EXPECT_EQ(members[static_cast<size_t>(group->rank())], rank.rank());
    EXPECT_EQ(group->size(), static_cast<int>(expected.size()));
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, NegativeColorJoinsNoGroup) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto group, rank.world.Split(rank.rank() == 0 ? -1 : 7, 0));
    EXPECT_EQ(group == nullptr, rank.rank() == 0);
    if (group != nullptr) {
      EXPECT_EQ(group->size(), rank.size() - 1);
      ZEROTH_RETURN_IF_ERROR(Members(*group, rank).status());
    }
    ZEROTH_ASSIGN_OR_RETURN(const auto nobody, rank.world.Split(-3, 0));
    EXPECT_EQ(nobody, nullptr);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, SplitsOfSplits) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(auto group, rank.world.Duplicate());
    std::vector<int32_t> expected(static_cast<size_t>(rank.size()));
    std::iota(expected.begin(), expected.end(), 0);
    while (group->size() > 1) {
      const int half = group->size() / 2;
      const bool lower = group->rank() < half;
      if (lower) {
        expected.resize(static_cast<size_t>(half));
      } else {
        expected.erase(expected.begin(), expected.begin() + half);
      }
      // The parent may be destroyed before the child.
      ZEROTH_ASSIGN_OR_RETURN(group, group->Split(lower ? 0 : 1, group->rank()));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> members, Members(*group, rank));
      EXPECT_EQ(members, expected);
    }
    return absl::OkStatus();
  });
}

// Two communicators on two streams are independent: ranks may order them as they like.
TEST_P(CommunicatorTest, CommunicatorsOnTwoStreamsNeedNoCommonOrder) {
  if (GetParam().back_end == "local" && GetParam().device != "cpu") {
    GTEST_SKIP() << "where streams run behind the host, this back end's hosts meet in one order";
  }
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto first, rank.world.Duplicate());
    ZEROTH_ASSIGN_OR_RETURN(const auto second, rank.world.Duplicate());
    ZEROTH_ASSIGN_OR_RETURN(const auto second_stream, rank.device.CreateStream("second"));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor a, ToDevice(rank.device, std::vector<float>(501, 1.0f)));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor b, ToDevice(rank.device, std::vector<float>(301, 3.0f)));
    const auto run_first = [&]() -> absl::Status {
      for (int i = 0; i < 5; ++i) {
        ZEROTH_RETURN_IF_ERROR(first->AllReduce(a, ReduceOp::kSum, rank.stream, "a"));
      }
      return absl::OkStatus();
    };
    const auto run_second = [&]() -> absl::Status {
      for (int i = 0; i < 5; ++i) {
        ZEROTH_RETURN_IF_ERROR(second->AllReduce(b, ReduceOp::kMean, *second_stream, "b"));
      }
      return absl::OkStatus();
    };
    if (rank.rank() % 2 == 0) {
      ZEROTH_RETURN_IF_ERROR(run_first());
      if (rank.rank() % 4 == 0) ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
      ZEROTH_RETURN_IF_ERROR(run_second());
    } else {
      ZEROTH_RETURN_IF_ERROR(run_second());
      ZEROTH_RETURN_IF_ERROR(run_first());
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, Fetch<float>(a, rank.stream));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mean, Fetch<float>(b, *second_stream));
    const auto n = static_cast<float>(rank.size());
    ExpectSameBits(sum, std::vector<float>(501, n * n * n * n * n));
    for (float value : mean) EXPECT_NEAR(value, 3.0f, 1e-5f);
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, MeshGroupsAreRowMajor) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    for (int s = 1; s <= rank.size(); ++s) {
      if (rank.size() % s != 0) continue;
      SCOPED_TRACE(::testing::Message() << "groups of " << s);
      const int groups = rank.size() / s;
      ZEROTH_ASSIGN_OR_RETURN(
          const auto mesh, Mesh::Create(rank.world, {{kReplicateAxis, groups}, {kShardAxis, s}}));
      for (const bool over_groups : {false, true}) {
        ZEROTH_ASSIGN_OR_RETURN(const auto view, MeshView::Create(*mesh, {0}, {1}, over_groups));
        EXPECT_EQ(view->shard_size(), s);
        EXPECT_EQ(view->replicate_size(), groups);
        EXPECT_EQ(view->data_parallel_size(), rank.size());
        EXPECT_EQ(view->shard_index(), rank.rank() % s);
        EXPECT_EQ(view->replicate_index(), rank.rank() / s);
        const bool spans = over_groups && groups > 1;
        EXPECT_EQ(view->owners_span_groups(), spans);

        std::vector<int32_t> shard_group(static_cast<size_t>(s));
        std::iota(shard_group.begin(), shard_group.end(), rank.rank() / s * s);
        std::vector<int32_t> replicas;
        for (int r = rank.rank() % s; r < rank.size(); r += s) replicas.push_back(r);
        std::vector<int32_t> everybody(static_cast<size_t>(rank.size()));
        std::iota(everybody.begin(), everybody.end(), 0);
        // Pieces of the ranks with one shard index lie side by side, in order of their groups.
        std::vector<int32_t> owners;
        for (int i = 0; i < s; ++i) {
          for (int g = 0; g < groups; ++g) {
            if (spans || g == rank.rank() / s) owners.push_back(g * s + i);
          }
        }
        EXPECT_EQ(view->owner_count(), static_cast<int>(owners.size()));
        EXPECT_EQ(owners[static_cast<size_t>(view->owner_index())], rank.rank());

        std::vector<std::pair<Communicator*, std::vector<int32_t>>> expected = {
            {&view->shard_gather(), shard_group},
            {&view->shard_reduce(), shard_group},
            {&view->replicate_reduce(), replicas},
            {&view->data_reduce(), everybody},
            {&view->owner_gather(), owners}};
        if (spans) expected.emplace_back(&view->replicate_gather(), replicas);
        for (const auto& [group, members] : expected) {
          ZEROTH_ASSIGN_OR_RETURN(const auto actual, Members(*group, rank));
          EXPECT_EQ(actual, members);
        }
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace zeroth::testing
