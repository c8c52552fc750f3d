// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests coordinates, errors, and which groups share a communicator. Every transport's suite tests
// the members of groups (communicator_groups_suite.h).

#include "zeroth/core/comm/mesh.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"

namespace zeroth {
namespace {

void OnRanks(int world_size, const std::function<absl::Status(Communicator&)>& rank_main) {
  LaunchOptions options;
  options.world_size = world_size;
  EXPECT_EQ(LauncherRegistry::Launch("local", options, rank_main), absl::OkStatus());
}

void ExpectRefused(const absl::Status& status, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& part : parts) {
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status << " lacks " << part;
  }
}

std::vector<MeshAxis> ThreeAxes() { return {{"replicate", 2}, {"shard", 3}, {"tensor", 2}}; }

TEST(MeshTest, TheLastAxisIsInnermost) {
  OnRanks(12, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(world, ThreeAxes()));
    const int rank = world.rank();
    EXPECT_EQ(mesh->index({0}), rank / 6);
    EXPECT_EQ(mesh->index({1}), rank / 2 % 3);
    EXPECT_EQ(mesh->index({2}), rank % 2);
    EXPECT_EQ(mesh->index({0, 1, 2}), rank);
    EXPECT_EQ(mesh->index({1, 0}), rank / 2 % 3 * 2 + rank / 6);
    EXPECT_EQ(mesh->size({0, 2}), 4);
    EXPECT_EQ(mesh->size({}), 1);
    EXPECT_EQ(mesh->index({}), 0);
    EXPECT_EQ(mesh->AllBut({1}), Mesh::Axes({0, 2}));
    return absl::OkStatus();
  });
}

TEST(MeshTest, GroupsOfEveryRunOfAxes) {
  OnRanks(12, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(world, ThreeAxes()));
    for (const Mesh::Axes& axes :
         std::vector<Mesh::Axes>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}, {1, 0}, {2, 1}}) {
      for (const Traffic traffic : {Traffic::kGather, Traffic::kReduce, Traffic::kReduceAcross}) {
        ZEROTH_ASSIGN_OR_RETURN(Communicator* const group, mesh->Group(axes, traffic));
        EXPECT_EQ(group->size(), mesh->size(axes));
        EXPECT_EQ(group->rank(), mesh->index(axes));
      }
    }
    EXPECT_EQ(mesh->communicators().size(), 8u * 3);
    return absl::OkStatus();
  });
}

// A communicator costs memory and, at the start, time.
TEST(MeshTest, OneGroupForOneSetOfRanksAndTraffic) {
  OnRanks(4, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto mesh,
                            Mesh::Create(world, {{"replicate", 1}, {"shard", 4}, {"tensor", 1}}));
    ZEROTH_ASSIGN_OR_RETURN(Communicator* const shard, mesh->Group({1}, Traffic::kReduce));
    ZEROTH_ASSIGN_OR_RETURN(Communicator* const all, mesh->Group({0, 1, 2}, Traffic::kReduce));
    EXPECT_EQ(shard, all);
    ZEROTH_ASSIGN_OR_RETURN(Communicator* const gather, mesh->Group({1}, Traffic::kGather));
    EXPECT_NE(shard, gather);
    ZEROTH_ASSIGN_OR_RETURN(Communicator* const alone, mesh->Group({0}, Traffic::kReduce));
    ZEROTH_ASSIGN_OR_RETURN(Communicator* const too, mesh->Group({2}, Traffic::kReduceAcross));
    EXPECT_EQ(alone, too);
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(mesh->communicators().size(), 3u);
    return absl::OkStatus();
  });
}

TEST(MeshTest, FindsAxesByName) {
  OnRanks(12, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(world, ThreeAxes()));
    ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes both, mesh->Find({"tensor", "shard"}));
    EXPECT_EQ(both, Mesh::Axes({2, 1}));
    ExpectRefused(mesh->Find({"experts"}).status(),
                  {"unknown axis 'experts'", "replicate 2 x shard 3 x tensor 2"});
    ExpectRefused(mesh->Find({"shard", "shard"}).status(), {"'shard' is named twice"});
    ExpectRefused(mesh->Find({"replicate", "tensor"}).status(),
                  {"replicate, tensor", "not adjacent", "shard 3"});
    return absl::OkStatus();
  });
}

TEST(MeshTest, RefusesAxesThatDoNotMakeTheWorld) {
  OnRanks(4, [](Communicator& world) -> absl::Status {
    ExpectRefused(Mesh::Create(world, {{"replicate", 3}, {"shard", 2}}).status(),
                  {"replicate 3 x shard 2 has 6 ranks", "the world has 4"});
    ExpectRefused(Mesh::Create(world, {{"shard", 4}, {"shard", 1}}).status(),
                  {"names that differ"});
    ExpectRefused(Mesh::Create(world, {{"", 4}}).status(), {"names that differ"});
    ExpectRefused(Mesh::Create(world, {{"replicate", 0}, {"shard", 4}}).status(),
                  {"'replicate' has 0 ranks", "at least 1"});
    EXPECT_TRUE(world.status().ok()) << "nobody waits, so nothing breaks";
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace zeroth
