// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums across groups run on a separate stream: a unit's all-reduce across groups does not block the
// next unit's reduction inside its group.

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/strategies/testing/toy_model.h"
#include "zeroth/strategies/testing/toy_training.h"

namespace zeroth {
namespace {

ShardingOptions Options(std::shared_ptr<UnitCollectives> collectives) {
  ShardingOptions options;
  options.strategy = "hybrid_shard";
  options.strategy_options.shard_size = 2;
  options.collectives = std::move(collectives);
  return options;
}

// The streams on which a unit's gradients are reduced.
class StreamNames : public UnitCollectives {
 public:
  absl::Status ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op, bool accumulate,
                             const CollectiveContext& context) override {
    inside[std::string(context.label)] = std::string(context.stream.name());
    return UnitCollectives::ReduceScatter(full, mine, op, accumulate, context);
  }
  absl::Status AllReduce(const Tensor& values, ReduceOp op,
                         const CollectiveContext& context) override {
    across[std::string(context.label)] = std::string(context.stream.name());
    return UnitCollectives::AllReduce(values, op, context);
  }
  std::map<std::string, std::string> inside;
  std::map<std::string, std::string> across;
};

TEST(AcrossStreamTest, EveryUnitsSumCrossesOnTheOtherStream) {
  EXPECT_EQ(
      RunToyRanks(4,
                  [](Communicator& world, Device& device) -> absl::Status {
                    const auto names = std::make_shared<StreamNames>();
                    ToyModel model(UniformUnits(3));
                    Timeline timeline;
                    ShardingOptions options = Options(names);
                    options.scheduler.timeline = &timeline;
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
                    timeline.set_recording(true);
                    ZEROTH_RETURN_IF_ERROR(ToyTrain(*sharding, world.rank(), 1));
                    ZEROTH_TOY_EXPECT(names->inside.size() == 4 && names->across.size() == 4);
                    for (const auto& [unit, stream] : names->inside) {
                      ZEROTH_TOY_EXPECT(stream == "reduce");
                      ZEROTH_TOY_EXPECT(names->across.at(unit) == "reduce across");
                    }
                    ZEROTH_ASSIGN_OR_RETURN(const auto spans, timeline.Take());
                    const auto is_across = [](const Timeline::Span& span) {
                      return span.stream == "reduce across" &&
                             span.label.rfind("reduce across ", 0) == 0;
                    };
                    ZEROTH_TOY_EXPECT(std::count_if(spans.begin(), spans.end(), is_across) == 4);
                    return absl::OkStatus();
                  }),
      absl::OkStatus());
}

// On rank 0, the first sum, that of h.2, crosses groups only after that of h.1 is complete inside
// the group. This would hang if h.2 blocked h.1's reduction, or kept h.1 from its gradient buffer.
class CrossingWaits : public UnitCollectives {
 public:
  explicit CrossingWaits(int rank) : rank_(rank) {}

  absl::Status ReduceScatter(const Tensor& full, const Tensor& mine, ReduceOp op, bool accumulate,
                             const CollectiveContext& context) override {
    inside_ = &context.stream;
    ZEROTH_RETURN_IF_ERROR(UnitCollectives::ReduceScatter(full, mine, op, accumulate, context));
    if (context.label != "h.1") return absl::OkStatus();
    return CpuStream::From(context.stream).Enqueue([is_there = is_there_] {
      *is_there = true;
      return absl::OkStatus();
    });
  }
  absl::Status AllReduce(const Tensor& values, ReduceOp op,
                         const CollectiveContext& context) override {
    if (&context.stream == inside_) return absl::InternalError("one stream for both");
    if (rank_ == 0 && context.label == "h.2") {
      ZEROTH_RETURN_IF_ERROR(
          CpuStream::From(context.stream).Enqueue([is_there = is_there_, group = &context.group] {
            // The others give up after the communicator's timeout.
            while (!*is_there && group->status().ok()) std::this_thread::yield();
            return group->status();
          }));
    }
    return UnitCollectives::AllReduce(values, op, context);
  }
  bool is_there() const { return *is_there_; }

 private:
  const int rank_;
  const Stream* inside_ = nullptr;
  const std::shared_ptr<std::atomic<bool>> is_there_ = std::make_shared<std::atomic<bool>>(false);
};

TEST(AcrossStreamTest, TheNextUnitIsReducedWhileOneCrosses) {
  for (const int buffers : {1, 2}) {
    EXPECT_EQ(RunToyRanks(4,
                          [&](Communicator& world, Device& device) -> absl::Status {
                            const auto waits = std::make_shared<CrossingWaits>(world.rank());
                            ToyModel model(UniformUnits(3));
                            ShardingOptions options = Options(waits);
                            options.scheduler.gradient_buffers = buffers;
                            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                    ShardToy(world, device, model, options));
                            ToyStep step;
                            step.gradient = PatternGradient(world.rank());
                            ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                            ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                            ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                            ZEROTH_TOY_EXPECT(waits->is_there());
                            ZEROTH_RETURN_IF_ERROR(CheckGradients(*sharding, PatternMean(4)));
                            return sharding->scheduler().EndStep();
                          }),
              absl::OkStatus());
  }
}

}  // namespace
}  // namespace zeroth
