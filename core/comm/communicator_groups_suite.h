// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which ranks talk to which: Split, Duplicate, Mesh. See communicator_test_suite.h.

#ifndef ZEROTH_CORE_COMM_COMMUNICATOR_GROUPS_SUITE_H_
#define ZEROTH_CORE_COMM_COMMUNICATOR_GROUPS_SUITE_H_

#include <memory>
#include <numeric>
#include <string>
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
      // The parent may go before the child.
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

TEST_P(CommunicatorTest, MeshIsRowMajor) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    for (int shard_size = 0; shard_size <= rank.size(); ++shard_size) {
      if (shard_size != 0 && rank.size() % shard_size != 0) continue;
      SCOPED_TRACE(::testing::Message() << "shard_size " << shard_size);
      ZEROTH_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(rank.world, shard_size));
      const int s = shard_size == 0 ? rank.size() : shard_size;
      EXPECT_EQ(mesh->shard_size(), s);
      EXPECT_EQ(mesh->replicate_size(), rank.size() / s);
      EXPECT_EQ(mesh->shard_index(), rank.rank() % s);
      EXPECT_EQ(mesh->replicate_index(), rank.rank() / s);
      EXPECT_EQ(&mesh->world(), &rank.world);

      std::vector<int32_t> shard_group(static_cast<size_t>(s));
      std::iota(shard_group.begin(), shard_group.end(), rank.rank() / s * s);
      std::vector<int32_t> replicas;
      for (int r = rank.rank() % s; r < rank.size(); r += s) replicas.push_back(r);
      std::vector<int32_t> everybody(static_cast<size_t>(rank.size()));
      std::iota(everybody.begin(), everybody.end(), 0);

      ZEROTH_ASSIGN_OR_RETURN(const auto gather, Members(mesh->shard_gather(), rank));
      ZEROTH_ASSIGN_OR_RETURN(const auto reduce, Members(mesh->shard_reduce(), rank));
      ZEROTH_ASSIGN_OR_RETURN(const auto replicate, Members(mesh->replicate_reduce(), rank));
      ZEROTH_ASSIGN_OR_RETURN(const auto world, Members(mesh->world_reduce(), rank));
      EXPECT_EQ(gather, shard_group);
      EXPECT_EQ(reduce, shard_group);
      EXPECT_EQ(replicate, replicas);
      EXPECT_EQ(world, everybody);
      // No two of them are one communicator.
      EXPECT_EQ(mesh->shard_gather().stats()[CollectiveOp::kAllGather].calls, 1);
      EXPECT_EQ(mesh->shard_reduce().stats()[CollectiveOp::kAllGather].calls, 1);
    }
    return absl::OkStatus();
  });
}

// Pieces of the ranks with one shard index lie side by side, in order of their groups.
TEST_P(CommunicatorTest, MeshOwnersMayBeAllRanks) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    for (int s = 1; s <= rank.size(); ++s) {
      if (rank.size() % s != 0) continue;
      SCOPED_TRACE(::testing::Message() << "shard_size " << s);
      const int groups = rank.size() / s;
      for (const bool over_world : {false, true}) {
        ZEROTH_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(rank.world, s, over_world));
        const bool spans = over_world && groups > 1;
        EXPECT_EQ(mesh->owners_span_groups(), spans);
        EXPECT_EQ(mesh->owner_count(), spans ? rank.size() : s);
        EXPECT_EQ(mesh->owner_copies() * mesh->owner_count(), rank.size());
        EXPECT_EQ(mesh->owner_copy(), spans ? 0 : rank.rank() / s);
        std::vector<int32_t> owners;
        std::vector<int32_t> replicas;
        for (int i = 0; i < s; ++i) {
          for (int g = 0; g < groups; ++g) {
            if (spans || g == rank.rank() / s) owners.push_back(g * s + i);
            if (i == rank.rank() % s) replicas.push_back(g * s + i);
          }
        }
        EXPECT_EQ(owners[static_cast<size_t>(mesh->owner_index())], rank.rank());
        ZEROTH_ASSIGN_OR_RETURN(const auto gather, Members(mesh->owner_gather(), rank));
        EXPECT_EQ(gather, owners);
        ZEROTH_ASSIGN_OR_RETURN(auto reduce, Members(mesh->owner_reduce(), rank));
        std::sort(reduce.begin(), reduce.end());
        std::sort(owners.begin(), owners.end());
        EXPECT_EQ(reduce, owners);
        EXPECT_EQ(mesh->communicators().size(), spans ? 6u : 4u);
        if (!spans) continue;
        ZEROTH_ASSIGN_OR_RETURN(const auto across, Members(mesh->replicate_gather(), rank));
        EXPECT_EQ(across, replicas);
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, MeshRefusesSizesThatDoNotDivide) {
  ExpectAllOk([](TestRank& rank) -> absl::Status {
    std::string divisors;
    for (int d = 1; d <= rank.size(); ++d) {
      if (rank.size() % d == 0) absl::StrAppend(&divisors, divisors.empty() ? "" : ", ", d);
    }
    for (int shard_size : {-1, rank.size() + 1, 7}) {
      const absl::Status status = Mesh::Create(rank.world, shard_size).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      ExpectWords(status,
                  {absl::StrCat("shard_size ", shard_size), absl::StrCat("world of ", rank.size()),
                   absl::StrCat("possible: ", divisors)});
    }
    EXPECT_TRUE(rank.world.status().ok()) << "nobody waits, so nothing breaks";
    return absl::OkStatus();
  });
}

}  // namespace zeroth::testing

#endif  // ZEROTH_CORE_COMM_COMMUNICATOR_GROUPS_SUITE_H_
