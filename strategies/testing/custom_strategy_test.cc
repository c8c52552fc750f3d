// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The example of docs/writing_a_strategy.md, run through the suite: a strategy that another project
// could register.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/testing/toy_model.h"
#include "zeroth/strategies/testing/toy_training.h"
#include "zeroth/strategies/unit.h"

namespace my_project {

using namespace zeroth;  // NOLINT: as an outside project would, in its own .cc
using testing::AllOf;
using testing::HasSubstr;

// ZeRO stage 1 over flat units: every rank sees all gradients, and keeps what its optimizer reads.
// It costs twice the gradient traffic of shard_grad_op, but gives access to full gradients. The
// strategy's option sets the number of pieces in which they are sent.
class AllReduceShard : public ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;
  static constexpr char kName[] = "all_reduce_shard";

  // Its state for each unit.
  struct UnitState {
    int64_t reductions = 0;
  };

  StrategyCapabilities capabilities() const override {
    return {.unit_axes = true, .adds_up_in_full = true};
  }
  absl::StatusOr<int> ShardSize(int world_size) const override { return world_size; }

  std::string ProgramsText(const Unit&) const override { return "  all-reduces gradients\n"; }

  absl::Status SyncGradients(Unit& unit, Stream& comm, bool is_last) override {
    // The next micro-batch adds to the full gradients.
    if (!is_last) return absl::OkStatus();
    for (int i = 0; i < unit.segment_count(); ++i) {
      const ShardLayout::Segment& layout = unit.segment_layout(i);
      Unit::Segment& segment = unit.segment(i);
      if (!layout.trainable || segment.grad.numel() == 0) continue;
      // Gaps between parameters are summed too; zeros stay zeros.
      ZEROTH_RETURN_IF_ERROR(ZeroGaps(unit, i, segment.grad, comm));
      if (unit.mesh().data_parallel_size() > 1) {
        ZEROTH_RETURN_IF_ERROR(AllReduce(unit, segment.grad, comm));
      }
      if (unit.is_replicated(i)) continue;  // what the optimizer reads is the full buffer itself
      const Tensor mine =
          segment.grad.View(unit.shard_rank() * layout.shard_numel, Shape({layout.shard_numel}));
      // The optimizer may read fp32 although a 16-bit type was reduced.
      ZEROTH_RETURN_IF_ERROR(
          segment.grad_shard.dtype() == mine.dtype()
              ? segment.grad_shard.Write(0, mine, comm)
              : kernels::Cast(*context().reduce_kernels, mine, segment.grad_shard.tensor()));
    }
    ++unit.strategy_state<UnitState>().reductions;
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, comm.Record());
    ZEROTH_RETURN_IF_ERROR(unit.MarkReduced(done));
    context().gradients->Release(unit, std::move(done));
    return absl::OkStatus();
  }

 private:
  absl::Status AllReduce(const Unit& unit, const Tensor& values, Stream& comm) {
    const int64_t pieces = std::min(options().IntOption("pieces"), values.numel());
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t begin = values.numel() * i / pieces;
      const int64_t end = values.numel() * (i + 1) / pieces;
      ZEROTH_RETURN_IF_ERROR(unit.mesh().data_reduce().AllReduce(
          values.View(begin, Shape({end - begin})), options().gradient_op, comm, unit.name()));
    }
    return absl::OkStatus();
  }
};

const StrategyRegistration registration(
    AllReduceShard::kName,
    {{.name = "pieces", .default_value = "1", .least = 1, .most = 64},
     {.name = "order", .default_value = "ascending", .choices = {"ascending", "any"}}},
    [](const StrategyOptions& options) { return std::make_unique<AllReduceShard>(options); });

INSTANTIATE_TEST_SUITE_P(AllReduceShard, StrategySuite,
                         testing::ValuesIn(StrategyCases("all_reduce_shard:pieces=3")),
                         StrategyCaseName);

std::string Refusal(absl::string_view text, const StrategyOptions& options = {}) {
  const absl::Status status = StrategyRegistry::Create(text, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
  return std::string(status.message());
}

TEST(CustomStrategyTest, IsFoundByNameLikeAnyOther) {
  const auto strategy = StrategyRegistry::Create("all_reduce_shard", {});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ((*strategy)->name(), AllReduceShard::kName);
  EXPECT_TRUE(absl::IsInvalidArgument(ShardSizeOf(**strategy, {2}, 4).status()));
}

TEST(CustomStrategyTest, ItsOptionsComeWithItsName) {
  for (const char* text :
       {"all_reduce_shard:pieces=64", "all_reduce_shard:", "all_reduce_shard:order=any,pieces=2"}) {
    EXPECT_TRUE(StrategyRegistry::Create(text, {}).ok()) << text;
  }
  EXPECT_THAT(Refusal("all_reduce_shard:peices=2"),
              AllOf(HasSubstr("'peices'"), HasSubstr("it has pieces, order")));
  for (const char* value : {"", "0", "65", "2.5", "two", "2x"}) {
    EXPECT_THAT(Refusal(absl::StrCat("all_reduce_shard:pieces=", value)),
                AllOf(HasSubstr(absl::StrCat("pieces is '", value, "'")),
                      HasSubstr("a number from 1 to 64")));
  }
  EXPECT_THAT(Refusal("all_reduce_shard:order=descending"),
              AllOf(HasSubstr("'descending'"), HasSubstr("ascending, any")));
  EXPECT_THAT(Refusal("all_reduce_shard:pieces"), HasSubstr("pieces is ''"));
  EXPECT_THAT(Refusal("all_reduce_shard:pieces=1,pieces=2"), HasSubstr("twice"));
}

// Options that it does not claim to support are refused.
TEST(CustomStrategyTest, UnsupportedOptionsAreRefused) {
  StrategyOptions post_forward;
  post_forward.post_forward_shard_size = 2;
  EXPECT_THAT(Refusal("all_reduce_shard", post_forward), HasSubstr("post_forward_shard_size"));
  StrategyOptions factor;
  factor.gradient_divide_factor = 2;
  EXPECT_THAT(Refusal("all_reduce_shard", factor), HasSubstr("gradient_divide_factor"));
  StrategyOptions over_world;
  over_world.shard_optimizer_over_world = true;
  EXPECT_THAT(Refusal("all_reduce_shard", over_world), HasSubstr("shard_optimizer_over_world"));
  StrategyOptions tree;
  tree.tree_micro_batches = 2;
  tree.gradient_op = ReduceOp::kSum;
  EXPECT_THAT(Refusal("all_reduce_shard", tree), HasSubstr("tree_micro_batches"));
}

TEST(CustomStrategyTest, KeepsWhatItLikesForEachUnitUntilAbandon) {
  EXPECT_EQ(
      RunToyRanks(
          2, "cpu",
          [](Communicator& world, Device& device) -> absl::Status {
            {
              // Beside the state of its base class.
              ToyModel built_on(UniformUnits(2));
              ZEROTH_ASSIGN_OR_RETURN(auto flat,
                                      Sharding::Create(world, device, {}, built_on.Specs()));
              ZEROTH_RETURN_IF_ERROR(flat->Load(ReaderOf(ToyValue)));
              Unit& first = *flat->units()[0];
              first.strategy_state<AllReduceShard::UnitState>().reductions = 7;
              ZEROTH_RETURN_IF_ERROR(ToyTrain(*flat, world.rank(), 1));
              ZEROTH_TOY_EXPECT(first.strategy_state<AllReduceShard::UnitState>().reductions == 7);
            }
            ToyModel model(UniformUnits(2));
            ShardingOptions options;
            options.strategy = AllReduceShard::kName;
            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                    Sharding::Create(world, device, options, model.Specs()));
            ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
            const auto expect_reductions = [&](int64_t count) -> absl::Status {
              for (Unit* unit : sharding->units()) {
                ZEROTH_TOY_EXPECT(unit->strategy_state<AllReduceShard::UnitState>().reductions ==
                                  count);
              }
              return absl::OkStatus();
            };
            ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 3));
            ZEROTH_RETURN_IF_ERROR(expect_reductions(3));
            ZEROTH_RETURN_IF_ERROR(sharding->scheduler().Abandon());
            return expect_reductions(0);
          }),
      absl::OkStatus());
}

}  // namespace my_project
