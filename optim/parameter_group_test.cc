// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/parameter_group.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth {
namespace {

using testing::AllLayouts;
using testing::Layout;
using testing::Rank;
using testing::Trained;
using testing::TrainRanks;

TEST(MatchesPatternTest, StarsAreAnyRunOfCharacters) {
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"a.b", "a.b"},
                                                        {"*", ""},
                                                        {"*", "h.0.weight"},
                                                        {"*.weight", "h.0.weight"},
                                                        {"h.*", "h."},
                                                        {"h.*.weight", "h.0.mlp.weight"},
                                                        {"*0*1*", "h.0.1"},
                                                        {"a*a", "aa"},
                                                        {"*ab*b", "abab"},
                                                        {"**x", "x"}}) {
    EXPECT_TRUE(MatchesPattern(pattern, name)) << pattern << " " << name;
  }
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"", "a"},
                                                        {"a.b", "axb"},
                                                        {"a", "ab"},
                                                        {"*.weight", "h.0.weights"},
                                                        {"h.*.weight", "h.weight"},
                                                        {"*1*0*", "h.0.1"},
                                                        {"a*a", "a"},
                                                        {"*ab*ab", "abxb"}}) {
    EXPECT_FALSE(MatchesPattern(pattern, name)) << pattern << " " << name;
  }
}

std::vector<ParameterGroup> Groups(const std::vector<std::string>& patterns) {
  std::vector<ParameterGroup> groups;
  for (const std::string& pattern : patterns) {
    groups.emplace_back();
    groups.back().pattern = pattern;
  }
  return groups;
}

TEST(AssignGroupsTest, TheFirstGroupThatMatchesTakesAParameter) {
  const auto assigned = AssignGroups(Groups({"h.0.*", "*.bias"}),
                                     {"h.0.bias", "h.1.bias", "h.0.weight", "h.1.weight"});
  ASSERT_TRUE(assigned.ok()) << assigned.status();
  EXPECT_EQ(*assigned, std::vector<int>({0, 1, 0, -1}));
}

TEST(AssignGroupsTest, AnEmptyGroupIsAnErrorThatSaysWhy) {
  const absl::Status unknown = AssignGroups(Groups({"*.gamma"}), {"h.0.weight", "wte"}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"'*.gamma'", "h.0.weight, wte"}) {
    EXPECT_NE(unknown.ToString().find(part), std::string::npos) << unknown;
  }
  const absl::Status taken = AssignGroups(Groups({"*", "w*"}), {"h.0.weight", "wte"}).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"'w*'", "groups before it"}) {
    EXPECT_NE(taken.ToString().find(part), std::string::npos) << taken;
  }
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) many.push_back(absl::StrCat("p", i));
  const absl::Status shortened = AssignGroups(Groups({"x"}), many).status();
  EXPECT_NE(shortened.ToString().find("p11 and 88 more"), std::string::npos) << shortened;
}

std::vector<float> Draw(const std::string& name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  CounterRng(9, name).FillNormal(0, 1, absl::MakeSpan(values));
  return values;
}

constexpr double kLr = 0.01;

// Returns the whole parameters after five steps; decay applies to both.
Trained Train(const Layout& layout, double lr, const AdamWOptions& options,
              const std::vector<ParameterGroup>& groups) {
  return TrainRanks(layout, Shape({6, 7}), Shape({13}), [&](Rank& rank) -> absl::Status {
    rank.vector.set_decay(true);
    ZEROTH_RETURN_IF_ERROR(rank.Load(Draw("m", 42), Draw("v", 13)));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, options, groups));
    for (int step = 0; step < 5; ++step) {
      ZEROTH_RETURN_IF_ERROR(
          rank.Backward(Draw(absl::StrCat("gm", step), 42), Draw(absl::StrCat("gv", step), 13)));
      ZEROTH_RETURN_IF_ERROR(adamw->Step(lr));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
    }
    return absl::OkStatus();
  });
}

ParameterGroup Different() {
  ParameterGroup group;
  group.pattern = "vec*";
  group.lr_scale = 0.25;
  group.weight_decay = 0.3;
  group.beta1 = 0.5;
  group.beta2 = 0.8;
  group.eps = 1e-3;
  return group;
}

// A parameter of a group gets the same bits as in a run whose options are those of the group.
TEST(ParameterGroupTest, EachIsUpdatedAsIfAloneUnderEveryLayout) {
  AdamWOptions other;
  other.weight_decay = 0.3;
  other.beta1 = 0.5;
  other.beta2 = 0.8;
  other.eps = 1e-3;
  const Layout whole = {"no_shard", 1, 0, 0};
  const std::vector<float> matrix = Train(whole, kLr, AdamWOptions(), {}).matrix;
  const std::vector<float> vector = Train(whole, 0.25 * kLr, other, {}).vector;
  ASSERT_NE(vector, Train(whole, kLr, AdamWOptions(), {}).vector);
  for (const Layout& layout : AllLayouts()) {
    if (layout.world_size == 3) continue;  // a mean of three equal gradients is rounded
    const Trained grouped = Train(layout, kLr, AdamWOptions(), {Different()});
    EXPECT_EQ(grouped.matrix, matrix) << layout.strategy << " x " << layout.world_size;
    EXPECT_EQ(grouped.vector, vector) << layout.strategy << " x " << layout.world_size;
  }
  const Trained at_three = Train({"no_shard", 3, 0, 0}, kLr, AdamWOptions(), {Different()});
  for (const char* strategy : {"shard_grad_op", "full_shard"}) {
    const Trained other_strategy = Train({strategy, 3, 0, 0}, kLr, AdamWOptions(), {Different()});
    EXPECT_EQ(other_strategy.matrix, at_three.matrix) << strategy;
    EXPECT_EQ(other_strategy.vector, at_three.vector) << strategy;
  }
}

TEST(ParameterGroupTest, EachSettingAloneMatters) {
  const Layout layout = {"full_shard", 2, 0, 0};
  const Trained plain = Train(layout, kLr, AdamWOptions(), {});
  std::vector<ParameterGroup> variants(5);
  variants[0].lr_scale = 2;
  variants[1].weight_decay = 0;
  variants[2].beta1 = 0.1;
  variants[3].beta2 = 0.1;
  variants[4].eps = 1;
  for (size_t i = 0; i < variants.size(); ++i) {
    variants[i].pattern = "vector";
    const Trained changed = Train(layout, kLr, AdamWOptions(), {variants[i]});
    EXPECT_EQ(changed.matrix, plain.matrix) << i;
    EXPECT_NE(changed.vector, plain.vector) << i;
  }
}

absl::Status Created(const ParameterGroup& group, bool frozen = false) {
  return RunLocalRanks(1, [&](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({2, 3}), Shape({4}));
    rank.vector.set_requires_grad(!frozen);
    ZEROTH_RETURN_IF_ERROR(rank.Open({"full_shard", 1, 0, 0}));
    return AdamW::Create(*rank.sharding, *rank.kernels, AdamWOptions(), {group}).status();
  });
}

TEST(ParameterGroupTest, WrongGroupsAreNamed) {
  EXPECT_TRUE(Created(Different()).ok());
  ParameterGroup wrong_scale = Different();
  wrong_scale.lr_scale = NAN;
  ParameterGroup wrong_beta = Different();
  wrong_beta.beta2 = 1.5;
  ParameterGroup nobody = Different();
  nobody.pattern = "*.weight";
  for (const auto& [group, part] :
       {std::pair(wrong_scale, "lr_scale = nan"), std::pair(wrong_beta, "beta2 = 1.5"),
        std::pair(nobody, "there are matrix, vector")}) {
    const absl::Status status = Created(group);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
    EXPECT_NE(status.ToString().find(group.pattern), std::string::npos) << status;
  }
  // Frozen parameters are not updated.
  EXPECT_NE(Created(Different(), /*frozen=*/true).ToString().find("there are matrix"),
            std::string::npos);
}

// A parameter that is frozen while the optimizer is made keeps its group for later.
TEST(ParameterGroupTest, ParametersUnfrozenLaterAreUpdatedAsTheirGroupSays) {
  const auto train = [](bool frozen_at_first) {
    return TrainRanks(
        {"full_shard", 2}, Shape({6, 7}), Shape({13}), [&](Rank& rank) -> absl::Status {
          ZEROTH_RETURN_IF_ERROR(rank.Load(Draw("m", 42), Draw("v", 13)));
          rank.vector.set_requires_grad(!frozen_at_first);
          ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*rank.sharding, *rank.kernels,
                                                            AdamWOptions(), {Different()}));
          rank.vector.set_requires_grad(true);
          ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw("gm", 42), Draw("gv", 13)));
          ZEROTH_RETURN_IF_ERROR(adamw->Step(kLr));
          return rank.sharding->scheduler().EndStep();
        });
  };
  EXPECT_EQ(train(true).vector, train(false).vector);
  EXPECT_EQ(train(true).matrix, train(false).matrix);
}

}  // namespace
}  // namespace zeroth
