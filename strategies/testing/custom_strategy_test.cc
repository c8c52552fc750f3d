// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The example of docs/writing_a_strategy.md, held to the suite: a strategy that a project of its
// own could register.

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/testing/strategy_suite.h"
#include "zeroth/strategies/unit.h"

namespace my_project {

using namespace zeroth;  // NOLINT: as an outside project would, in its own .cc

// ZeRO stage 1 over flat units: every rank sees all gradients, and keeps what its optimizer reads.
// It costs twice the gradient traffic of shard_grad_op; its use is to look at whole gradients.
class AllReduceShard : public ShardingStrategy {
 public:
  static constexpr char kName[] = "all_reduce_shard";

  explicit AllReduceShard(const StrategyOptions& options) : options_(options) {}

  absl::string_view name() const override { return kName; }
  StatePlacement placement() const override {
    return {.parameters = true, .gradients = true, .optimizer = true};
  }
  absl::StatusOr<int> ShardSize(int world_size) const override {
    if (options_.post_forward_shard_size != 0 || options_.gradient_divide_factor != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          kName, ": neither resharding to groups of ", options_.post_forward_shard_size,
          " nor a gradient divide factor of ", options_.gradient_divide_factor, " is served"));
    }
    return FixedShardSize(kName, options_, world_size);
  }

  bool AddsUpInFull() const override { return true; }

  absl::Status Attach(const StrategyContext& context) override {
    mesh_ = context.mesh;
    kernels_ = context.gather_kernels;
    reduce_kernels_ = context.reduce_kernels;
    // Units stay gathered during a step, so each has its own buffer; gradients take turns in the
    // scheduler's.
    full_ = std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGatheredParameters,
                                          nullptr);
    gradients_ = std::make_unique<FullBuffers>(*context.device, MemoryCategory::kGradients,
                                               context.gradients);
    return absl::OkStatus();
  }

  absl::Status Gather(Unit& unit, Pass, Stream& comm) override {
    return GatherSegments(unit, mesh_->shard_gather(), *full_, comm, kernels_);
  }
  absl::Status Reshard(Unit& unit, Pass pass) override {
    if (pass == Pass::kForward || pass == Pass::kBackward) return absl::OkStatus();
    return FreeGathered(unit, *full_);
  }

  absl::Status PrepareGradients(Unit& unit) override {
    return PrepareFullGradients(unit, *gradients_);
  }
  absl::Status SyncGradients(Unit& unit, Stream& comm, GradientSync sync) override {
    // The next micro-batch adds to what is there.
    if (sync == GradientSync::kAccumulate) return absl::OkStatus();
    for (int i = 0; i < unit.segment_count(); ++i) {
      const ShardLayout::Segment& layout = unit.segment_layout(i);
      Unit::Segment& segment = unit.segment(i);
      if (!layout.trainable || segment.grad.numel() == 0) continue;
      // All that lies between parameters is summed too; zeros stay zeros.
      for (const ShardLayout::Gap& gap : unit.layout().Gaps(i)) {
        const Tensor view = segment.grad.View(gap.offset, Shape({gap.numel}));
        ZEROTH_RETURN_IF_ERROR(unit.device().FillZero(view.raw_data(), view.bytes(), comm));
      }
      if (mesh_->world().size() > 1) {
        ZEROTH_RETURN_IF_ERROR(
            mesh_->world_reduce().AllReduce(segment.grad, options_.gradient_op, comm, unit.name()));
      }
      if (unit.is_whole(i)) continue;  // what the optimizer reads is the full buffer itself
      const Tensor mine =
          segment.grad.View(unit.shard_rank() * layout.shard_numel, Shape({layout.shard_numel}));
      // What the optimizer reads may be fp32 where less was reduced.
      ZEROTH_RETURN_IF_ERROR(segment.grad_shard.dtype() == mine.dtype()
                                 ? unit.device().Copy(segment.grad_shard.raw_data(),
                                                      mine.raw_data(), mine.bytes(), comm)
                                 : kernels::Cast(*reduce_kernels_, mine, segment.grad_shard));
    }
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, comm.Record());
    ZEROTH_RETURN_IF_ERROR(unit.MarkReduced(done));
    gradients_->Release(unit, std::move(done));
    return absl::OkStatus();
  }

  void Abandon(Unit& unit) override {
    unit.Abandon();
    full_->Release(unit, nullptr);
    gradients_->Release(unit, nullptr);
  }
  absl::Status Trim() override { return absl::OkStatus(); }

 private:
  StrategyOptions options_;
  Mesh* mesh_ = nullptr;
  Kernels* kernels_ = nullptr;
  Kernels* reduce_kernels_ = nullptr;
  std::unique_ptr<FullBuffers> full_;
  std::unique_ptr<FullBuffers> gradients_;
};

const StrategyRegistration registration(AllReduceShard::kName, [](const StrategyOptions& options) {
  return std::make_unique<AllReduceShard>(options);
});

INSTANTIATE_TEST_SUITE_P(AllReduceShard, StrategySuite,
                         testing::ValuesIn(StrategyCases(AllReduceShard::kName)), StrategyCaseName);

TEST(CustomStrategyTest, IsFoundByNameLikeAnyOther) {
  EXPECT_EQ((*StrategyRegistry::Create("all_reduce_shard", {}))->name(), AllReduceShard::kName);
  EXPECT_TRUE(absl::IsInvalidArgument(
      (*StrategyRegistry::Create("all_reduce_shard", {2}))->ShardSize(4).status()));
}

}  // namespace my_project
