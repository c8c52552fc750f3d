// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the programs of every strategy and option, on the rank in the middle of the world, with
// the text in unit_programs.txt. A difference means that other data is gathered, sent, rounded or
// stored. The strategy suite tests the values.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/quantized_collectives.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {
namespace {

constexpr char kGolden[] = "strategies/testing/unit_programs.txt";

struct Case {
  std::string title;
  int world_size = 4;
  ShardingOptions options = {};
};

MixedPrecision Bf16() {
  return {.param_dtype = DType::kBFloat16, .reduce_dtype = DType::kBFloat16};
}

Case Make(std::string title, const char* strategy, MixedPrecision precision = {}) {
  Case made{.title = std::move(title)};
  made.options.strategy = strategy;
  made.options.mixed_precision = precision;
  if (made.options.strategy == "hybrid_shard") made.options.strategy_options.shard_size = 2;
  return made;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    cases.push_back(Make(absl::StrCat(strategy, ", fp32"), strategy));
    cases.push_back(Make(absl::StrCat(strategy, ", bf16"), strategy, Bf16()));
  }
  cases.push_back(Make("full_shard on one rank", "full_shard"));
  cases.back().world_size = 1;
  cases.push_back(Make("full_shard, small parameters replicated", "full_shard", Bf16()));
  cases.back().options.min_shard_numel = 16;
  cases.push_back(Make("full_shard, layout kRows", "full_shard"));
  cases.back().options.layout = LayoutKind::kRows;
  cases.push_back(Make("full_shard, offloaded", "full_shard", Bf16()));
  cases.back().options.offload.parameters = true;
  cases.back().options.offload.gradients = true;
  cases.push_back(Make("full_shard, int8 collectives", "full_shard"));
  cases.back().options.collectives = *QuantizedCollectives();
  cases.push_back(Make("full_shard, post-forward groups of 2", "full_shard"));
  cases.back().options.strategy_options.post_forward_shard_size = 2;
  cases.push_back(Make("full_shard, gradient divide factor", "full_shard", Bf16()));
  cases.back().options.strategy_options.gradient_divide_factor = 3;
  cases.push_back(Make("full_shard, a tree over 4 micro-batches", "full_shard", Bf16()));
  cases.back().options.strategy_options.gradient_op = ReduceOp::kSum;
  cases.back().options.strategy_options.tree_micro_batches = 4;
  cases.push_back(Make("hybrid_shard, optimizer over the world", "hybrid_shard", Bf16()));
  cases.back().options.strategy_options.shard_optimizer_over_world = true;
  cases.push_back(
      Make("hybrid_shard, optimizer over the world, gradients offloaded", "hybrid_shard"));
  cases.back().options.strategy_options.shard_optimizer_over_world = true;
  cases.back().options.offload.gradients = true;
  cases.push_back(Make("hybrid_shard, a tree over 3 micro-batches", "hybrid_shard", Bf16()));
  cases.back().options.strategy_options.gradient_op = ReduceOp::kSum;
  cases.back().options.strategy_options.tree_micro_batches = 3;
  cases.push_back(Make("hybrid_shard, gradients offloaded", "hybrid_shard", Bf16()));
  cases.back().options.offload.gradients = true;
  cases.push_back(Make("hybrid_shard, optimizer over the world, groups of 1", "hybrid_shard"));
  cases.back().options.strategy_options.shard_size = 1;
  cases.back().options.strategy_options.shard_optimizer_over_world = true;
  cases.push_back(Make("full_shard, post-forward groups of 1", "full_shard"));
  cases.back().options.strategy_options.post_forward_shard_size = 1;
  return cases;
}

TEST(UnitProgramTest, ProgramsAreThoseOfTheFile) {
  std::string all;
  for (const Case& in : Cases()) {
    std::string text;
    const absl::Status status =
        RunToyRanks(in.world_size, [&](Communicator& world, Device& device) -> absl::Status {
          // A matrix, a vector that may be replicated, and gaps after both.
          ToyModel model({{"block", {Shape({5, 8}), Shape({3})}}});
          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, in.options));
          if (world.rank() == world.size() / 2) text = sharding->ProgramsText();
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << in.title << ": " << status;
    absl::StrAppend(&all, "== ", in.title, "\n", text);
  }
  const std::vector<std::string> expected = absl::StrSplit(ReadTestFile(kGolden), '\n');
  const std::vector<std::string> actual = absl::StrSplit(all, '\n');
  EXPECT_EQ(actual, expected) << "the programs are\n" << all;
}

}  // namespace
}  // namespace zeroth
