// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the scheduler: the number, order and overlap of collectives, the number of buffers, and
// calls in the wrong order. The strategy suite tests the results under every strategy.

#include "zeroth/strategies/scheduler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/testing/toy_model.h"

namespace zeroth {
namespace {

constexpr int kBlocks = 3;

ShardingOptions OptionsOf(const std::string& strategy) {
  ShardingOptions options;
  options.strategy = strategy;
  if (strategy == "hybrid_shard") options.strategy_options.shard_size = 2;
  return options;
}

ToyStep SimpleStep() {
  ToyStep step;
  step.gradient = [](const Parameter&, int64_t element, float) {
    return static_cast<float>(element % 3);
  };
  step.expected = ToyValue;
  step.lr = 0;
  return step;
}

// Calls by operation since the previous query.
class CallCounter {
 public:
  explicit CallCounter(const Sharding& sharding) : sharding_(sharding) {
    Take(CollectiveOp::kAllGather);
  }
  int64_t Take(CollectiveOp op) {
    const auto now = sharding_.stats().collectives;
    const int64_t calls =
        now[static_cast<size_t>(op)].calls - before_[static_cast<size_t>(op)].calls;
    before_ = now;
    return calls;
  }

 private:
  const Sharding& sharding_;
  CommStats::Counters before_{};
};

// "gather(h.1) reduce(h.2) …" in the order in which this rank issued them, over all communicators.
class TrafficRecorder {
 public:
  explicit TrafficRecorder(Mesh& mesh) : groups_(mesh.communicators()) {
    for (Communicator* group : groups_) group->stats().EnableRecord(true);
  }
  std::string Take() {
    std::vector<CommStats::Entry> all;
    for (Communicator* group : groups_) {
      for (CommStats::Entry& entry : group->stats().TakeRecord()) all.push_back(std::move(entry));
    }
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    std::vector<std::string> calls;
    for (const CommStats::Entry& entry : all) {
      const bool gather = entry.op == CollectiveOp::kAllGather;
      calls.push_back(absl::StrCat(gather ? "gather" : "reduce", "(", entry.label, ")"));
    }
    return absl::StrJoin(calls, " ");
  }

 private:
  std::vector<Communicator*> groups_;
};

absl::Status ExpectTraffic(const std::string& actual, const std::string& expected) {
  if (actual == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("expected traffic '", expected, "', got '", actual, "'"));
}

absl::Status ExpectError(const absl::Status& status, absl::StatusCode code,
                         const std::vector<std::string>& parts) {
  bool as_expected = status.code() == code;
  for (const std::string& part : parts) as_expected &= absl::StrContains(status.message(), part);
  if (as_expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("got ", status.ToString(), ", expected ",
                                          absl::StatusCodeToString(code), " with '",
                                          absl::StrJoin(parts, "', '"), "'"));
}

struct CountCase {
  std::string strategy;
  bool with_root;
  int forward_gathers;
  int backward_gathers;
  int reduce_scatters;
  int all_reduces;
  bool reshard_after_forward = true;
};

class CollectiveCountTest : public testing::TestWithParam<CountCase> {};

// With a root and B blocks, or B + 1 blocks: B + 1 gathers in forward and B + 1 reductions. Gathers
// in backward: B + 1 if all units were resharded, B if the root was kept, none if all were kept.
TEST_P(CollectiveCountTest, IsExact) {
  const CountCase& param = GetParam();
  for (const bool prefetch : {false, true}) {
    EXPECT_EQ(
        RunToyRanks(
            4,
            [&](Communicator& world, Device& device) -> absl::Status {
              std::vector<ToyUnit> units = UniformUnits(kBlocks);
              units[0].is_root = param.with_root;
              ToyModel model(units);
              ShardingOptions options = OptionsOf(param.strategy);
              options.scheduler.prefetch = prefetch;
              options.strategy_options.reshard_after_forward = param.reshard_after_forward;
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
              const ToyStep step = SimpleStep();
              for (int i = 0; i < 3; ++i) {
                CallCounter counter(*sharding);
                ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                ZEROTH_TOY_EXPECT(counter.Take(CollectiveOp::kAllGather) == param.forward_gathers);
                CallCounter scatters(*sharding);
                CallCounter all_reduces(*sharding);
                ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                ZEROTH_TOY_EXPECT(counter.Take(CollectiveOp::kAllGather) == param.backward_gathers);
                ZEROTH_TOY_EXPECT(scatters.Take(CollectiveOp::kReduceScatter) ==
                                  param.reduce_scatters);
                ZEROTH_TOY_EXPECT(all_reduces.Take(CollectiveOp::kAllReduce) == param.all_reduces);
                ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                ZEROTH_TOY_EXPECT(counter.Take(CollectiveOp::kAllGather) == 0);
              }
              return absl::OkStatus();
            }),
        absl::OkStatus());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, CollectiveCountTest,
    testing::Values(CountCase{"full_shard", true, kBlocks + 1, kBlocks, kBlocks + 1, 0},
                    CountCase{"full_shard", false, kBlocks + 1, kBlocks + 1, kBlocks + 1, 0},
                    CountCase{"full_shard", true, kBlocks + 1, 0, kBlocks + 1, 0, false},
                    CountCase{"hybrid_shard", true, kBlocks + 1, 0, kBlocks + 1, kBlocks + 1,
                              false},
                    CountCase{"shard_grad_op", true, kBlocks + 1, 0, kBlocks + 1, 0},
                    CountCase{"shard_optimizer", true, kBlocks + 1, 0, kBlocks + 1, 0},
                    CountCase{"hybrid_shard", true, kBlocks + 1, kBlocks, kBlocks + 1, kBlocks + 1},
                    CountCase{"no_shard", true, 0, 0, 0, kBlocks + 1}),
    [](const auto& test) {
      return absl::StrCat(test.param.strategy, test.param.with_root ? "" : "_without_root",
                          test.param.reshard_after_forward ? "" : "_kept");
    });

TEST(SchedulerTest, TrafficFollowsTheDocumentedOrder) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(UniformUnits(kBlocks));
                    ZEROTH_ASSIGN_OR_RETURN(
                        auto sharding, ShardToy(world, device, model, OptionsOf("full_shard")));
                    TrafficRecorder recorder(sharding->mesh());
                    const ToyStep step = SimpleStep();
                    for (int i = 0; i < 3; ++i) {
                      ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                      ZEROTH_RETURN_IF_ERROR(ExpectTraffic(
                          recorder.Take(), "gather(root) gather(h.0) gather(h.1) gather(h.2)"));
                      ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                      ZEROTH_RETURN_IF_ERROR(
                          ExpectTraffic(recorder.Take(),
                                        "gather(h.2) gather(h.1) reduce(h.2) gather(h.0) "
                                        "reduce(h.1) reduce(h.0) reduce(root)"));
                      ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
                      ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                      ZEROTH_RETURN_IF_ERROR(ExpectTraffic(recorder.Take(), ""));
                    }
                    return absl::OkStatus();
                  }),
      absl::OkStatus());
}

TEST(SchedulerTest, WithoutPrefetchNothingRunsAhead) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(kBlocks));
                          ShardingOptions options = OptionsOf("full_shard");
                          options.scheduler.prefetch = false;
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                                  ShardToy(world, device, model, options));
                          ToyStep step = SimpleStep();
                          ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                          TrafficRecorder recorder(sharding->mesh());
                          ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
                          recorder.Take();
                          ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
                          return ExpectTraffic(recorder.Take(),
                                               "gather(h.2) reduce(h.2) gather(h.1) reduce(h.1) "
                                               "gather(h.0) reduce(h.0) reduce(root)");
                        }),
            absl::OkStatus());
}

// kPre gathers the next unit before the current one's backward, kPost after it, and kNone when the
// next backward begins.
TEST(SchedulerTest, BackwardPrefetchSaysWhenTheNextUnitIsGathered) {
  for (const BackwardPrefetch when :
       {BackwardPrefetch::kPre, BackwardPrefetch::kPost, BackwardPrefetch::kNone}) {
    EXPECT_EQ(
        RunToyRanks(
            2,
            [&](Communicator& world, Device& device) -> absl::Status {
              ToyModel model(UniformUnits(kBlocks));
              ShardingOptions options = OptionsOf("full_shard");
              options.scheduler.backward_prefetch = when;
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
              ToyStep step = SimpleStep();
              ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
              TrafficRecorder recorder(sharding->mesh());
              step.hook = [&](absl::string_view stage, const Unit* unit) -> absl::Status {
                if (unit == nullptr || unit->is_root()) return absl::OkStatus();
                const bool is_last = unit->index() == kBlocks;
                const bool on_its_way = sharding->scheduler().IsPrefetched(*unit);
                if (stage == "before backward") {
                  // The root's backward, in which the last block's begins, is not over.
                  ZEROTH_TOY_EXPECT(on_its_way == (when == BackwardPrefetch::kPre ||
                                                   (when == BackwardPrefetch::kPost && !is_last)));
                }
                if (stage == "backward" && unit->index() > 1) {
                  const Unit& next = *sharding->units()[static_cast<size_t>(unit->index() - 1)];
                  ZEROTH_TOY_EXPECT(sharding->scheduler().IsPrefetched(next) ==
                                    (when == BackwardPrefetch::kPre));
                }
                return absl::OkStatus();
              };
              ZEROTH_RETURN_IF_ERROR(ToyForward(*sharding, step));
              recorder.Take();
              ZEROTH_RETURN_IF_ERROR(ToyBackward(*sharding, step));
              return ExpectTraffic(recorder.Take(),
                                   when == BackwardPrefetch::kPre
                                       ? "gather(h.2) gather(h.1) reduce(h.2) gather(h.0) "
                                         "reduce(h.1) reduce(h.0) reduce(root)"
                                       : "gather(h.2) reduce(h.2) gather(h.1) reduce(h.1) "
                                         "gather(h.0) reduce(h.0) reduce(root)");
            }),
        absl::OkStatus())
        << static_cast<int>(when);
  }
}

// From the second step on, the next unit's gather overlaps a unit's forward.
TEST(SchedulerTest, PrefetchesTheRecordedOrder) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(UniformUnits(kBlocks));
                    ZEROTH_ASSIGN_OR_RETURN(
                        auto sharding, ShardToy(world, device, model, OptionsOf("full_shard")));
                    ToyStep step = SimpleStep();
                    ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                    const auto units = sharding->units();
                    step.hook = [&](absl::string_view stage, const Unit* unit) -> absl::Status {
                      if (stage != "forward") return absl::OkStatus();
                      const size_t next = static_cast<size_t>(unit->index()) + 1;
                      if (next < units.size()) {
                        ZEROTH_TOY_EXPECT(sharding->scheduler().IsPrefetched(*units[next]));
                      }
                      return absl::OkStatus();
                    };
                    return RunToyStep(*sharding, step);
                  }),
      absl::OkStatus());
}

// Stands for a unit's compute that lasts until `event` is done.
absl::Status ComputeUntilDone(const std::shared_ptr<Event>& event, const Unit& unit) {
  ZEROTH_TOY_EXPECT(event != nullptr);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!event->IsDone()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return absl::DeadlineExceededError(
          absl::StrCat("traffic for '", unit.name(), "' does not run beside compute"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return absl::OkStatus();
}

absl::StatusOr<Timeline::Span> FindSpan(const std::vector<Timeline::Span>& spans,
                                        const std::string& label) {
  for (const Timeline::Span& span : spans) {
    if (span.label == label) return span;
  }
  return absl::NotFoundError(absl::StrCat("no span '", label, "'"));
}

// Computes with one unit for as long as another one's gather, or reduction, is under way, so that a
// step ends only if these overlap compute, and records which did.
class HidingCompute {
 public:
  explicit HidingCompute(Sharding& sharding) : sharding_(sharding) {}

  absl::Status operator()(absl::string_view stage, const Unit* unit) {
    if (unit == nullptr) return absl::OkStatus();
    const int at = unit->index();
    if (stage == "forward" && at < kBlocks) return HideGather(at + 1);
    // The root's backward, which encloses the blocks', has begun.
    if (stage == "before backward" && at == kBlocks) return HideGather(at);
    if (stage != "backward") return absl::OkStatus();
    if (at > 1) ZEROTH_RETURN_IF_ERROR(HideGather(at - 1));
    // The root's ends after all of the blocks'.
    return at < kBlocks ? HideReduction(at + 1) : absl::OkStatus();
  }
  const std::vector<std::string>& hidden() const { return hidden_; }

 private:
  absl::Status HideGather(int index) {
    const Unit& unit = *sharding_.units()[static_cast<size_t>(index)];
    ZEROTH_TOY_EXPECT(sharding_.scheduler().IsPrefetched(unit));
    hidden_.push_back(absl::StrCat("gather ", unit.name()));
    return ComputeUntilDone(unit.gather_event(), unit);
  }
  absl::Status HideReduction(int index) {
    const Unit& unit = *sharding_.units()[static_cast<size_t>(index)];
    ZEROTH_TOY_EXPECT(unit.gradient_state() == GradientState::kReduced);
    hidden_.push_back(absl::StrCat("reduce ", unit.name()));
    return ComputeUntilDone(unit.reduce_event(), unit);
  }

  Sharding& sharding_;
  std::vector<std::string> hidden_;
};

// The marks of units, without those of the collectives inside and of waits.
std::vector<Timeline::Span> OfUnits(const std::vector<Timeline::Span>& spans) {
  std::vector<Timeline::Span> units;
  for (const Timeline::Span& span : spans) {
    const std::string what = span.label.substr(0, span.label.find(' '));
    if (what == "forward" || what == "backward" || what == "gather" || what == "reduce") {
      units.push_back(span);
    }
  }
  return units;
}

// The work of the communication streams, in the order in which it began.
std::vector<std::string> TrafficOf(const std::vector<Timeline::Span>& spans) {
  std::vector<std::string> traffic;
  for (const Timeline::Span& span : spans) {
    if (span.stream != "compute") traffic.push_back(span.label);
  }
  return traffic;
}

// All traffic but a step's first gather and last reduction overlaps compute.
TEST(SchedulerTest, OnlyTheFirstGatherAndTheLastReductionAreExposed) {
  EXPECT_EQ(
      RunToyRanks(
          2,
          [](Communicator& world, Device& device) -> absl::Status {
            ToyModel model(UniformUnits(kBlocks));
            Timeline timeline;
            ShardingOptions options = OptionsOf("full_shard");
            options.scheduler.timeline = &timeline;
            ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
            ToyStep step = SimpleStep();
            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));  // learns the order
            HidingCompute compute(*sharding);
            step.hook = std::ref(compute);
            timeline.set_recording(true);
            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
            timeline.set_recording(false);
            ZEROTH_ASSIGN_OR_RETURN(const std::vector<Timeline::Span> all, timeline.Take());
            const std::vector<Timeline::Span> spans = OfUnits(all);
            // A forward, a backward and a reduction of each unit; gathers in either pass, the
            // root's once.
            ZEROTH_TOY_EXPECT(spans.size() == 3 * (kBlocks + 1) + 2 * kBlocks + 1);
            std::vector<std::string> exposed = TrafficOf(spans);
            ZEROTH_TOY_EXPECT(exposed.front() == "gather root" && exposed.back() == "reduce root");
            for (const std::string& hidden : compute.hidden()) {
              const auto at = std::find(exposed.begin(), exposed.end(), hidden);
              ZEROTH_TOY_EXPECT(at != exposed.end());
              exposed.erase(at);
            }
            ZEROTH_TOY_EXPECT(exposed == (std::vector<std::string>{"gather root", "reduce root"}));
            ZEROTH_ASSIGN_OR_RETURN(const Timeline::Span forward, FindSpan(spans, "forward h.0"));
            ZEROTH_ASSIGN_OR_RETURN(const Timeline::Span gather, FindSpan(spans, "gather h.1"));
            ZEROTH_TOY_EXPECT(gather.stream == "gather" && forward.stream == "compute");
            // The hook has waited for the ends of both, but their marks may come later.
            ZEROTH_TOY_EXPECT(gather.begin <= forward.end);
            ZEROTH_ASSIGN_OR_RETURN(const Timeline::Span backward, FindSpan(spans, "backward h.1"));
            ZEROTH_ASSIGN_OR_RETURN(const Timeline::Span reduce, FindSpan(spans, "reduce h.2"));
            ZEROTH_TOY_EXPECT(reduce.stream == "reduce");
            ZEROTH_TOY_EXPECT(reduce.begin <= backward.end);
            return absl::OkStatus();
          }),
      absl::OkStatus());
}

TEST(SchedulerTest, AWrongGuessOfTheOrderIsGivenUp) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(UniformUnits(kBlocks));
                    ZEROTH_ASSIGN_OR_RETURN(
                        auto sharding, ShardToy(world, device, model, OptionsOf("full_shard")));
                    ToyStep step = SimpleStep();
                    ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                    // The last block is no longer used, so one prefetch of it is unused.
                    step.order = {sharding->units()[0], sharding->units()[1], sharding->units()[2]};
                    TrafficRecorder recorder(sharding->mesh());
                    ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                    ZEROTH_TOY_EXPECT(absl::StrContains(recorder.Take(), "gather(h.2)"));
                    ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                    const std::string traffic = recorder.Take();
                    ZEROTH_TOY_EXPECT(!absl::StrContains(traffic, "gather(h.2)"));
                    ZEROTH_TOY_EXPECT(absl::StrContains(traffic, "reduce(h.2)"));
                    return CheckAtRest(*sharding);
                  }),
      absl::OkStatus());
}

TEST(SchedulerTest, AtMostTheRootAndTheBuffersAreGathered) {
  for (const int buffers : {1, 2, 3}) {
    EXPECT_EQ(RunToyRanks(
                  4,
                  [&](Communicator& world, Device& device) -> absl::Status {
                    ToyModel model(UniformUnits(6));
                    ShardingOptions options = OptionsOf("full_shard");
                    options.scheduler.gather_buffers = buffers;
                    options.scheduler.gradient_buffers = buffers;
                    ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
                    const auto bytes = [&](size_t unit) {
                      return 4 * sharding->units()[unit]->segment_layout(0).numel;
                    };
                    const auto shard_bytes = [&](size_t unit) {
                      return 4 * sharding->units()[unit]->segment_layout(0).shard_numel;
                    };
                    for (int i = 0; i < 3; ++i) {
                      ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, SimpleStep()));
                      const MemoryStats memory = device.allocator().stats();
                      const auto rounded = (bytes(1) + 63) / 64 * 64;
                      ZEROTH_TOY_EXPECT(memory[MemoryCategory::kGatheredParameters].peak_bytes ==
                                        (bytes(0) + 63) / 64 * 64 + buffers * rounded);
                      const int64_t shards = shard_bytes(0) + 6 * shard_bytes(1);
                      ZEROTH_TOY_EXPECT(memory[MemoryCategory::kGradients].peak_bytes <=
                                        shards + (bytes(0) + 63) / 64 * 64 + buffers * rounded);
                      ZEROTH_TOY_EXPECT(memory[MemoryCategory::kGradients].current_bytes == 0);
                      ZEROTH_TOY_EXPECT(memory[MemoryCategory::kParameters].peak_bytes == shards);
                      ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
                    }
                    return absl::OkStatus();
                  }),
              absl::OkStatus())
        << buffers << " buffers";
  }
}

// Runs a forward and a backward of blocks that contain a norm each; `units` alternate blocks and
// norms. Calls `in_norm` within the first norm's forward.
absl::Status NestedStep(Sharding& sharding, const std::function<absl::Status()>& in_norm) {
  Scheduler& scheduler = sharding.scheduler();
  const absl::Span<Unit* const> units = sharding.units();
  for (size_t block = 0; block < units.size(); block += 2) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*units[block]));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*units[block + 1]));
    if (block == 0) ZEROTH_RETURN_IF_ERROR(in_norm());
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*units[block + 1]));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*units[block]));
  }
  for (size_t block = units.size(); block > 0; block -= 2) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(*units[block - 2]));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(*units[block - 1]));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(*units[block - 1]));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(*units[block - 2]));
  }
  ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
  return scheduler.EndStep();
}

// A norm in a block-sized buffer would waste memory, and keep the next block from being prefetched.
TEST(SchedulerTest, SmallUnitsInsideOthersTakeNoneOfTheirBuffers) {
  EXPECT_EQ(
      RunToyRanks(
          2,
          [](Communicator& world, Device& device) -> absl::Status {
            const Shape matrix({64, 64});
            const Shape norm({64});
            ToyModel model({{"a", {matrix}},
                            {"a.norm", {norm}},
                            {"b", {matrix}},
                            {"b.norm", {norm}},
                            {"c", {matrix}},
                            {"c.norm", {norm}}});
            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                    ShardToy(world, device, model, OptionsOf("full_shard")));
            const auto nothing = [] { return absl::OkStatus(); };
            ZEROTH_RETURN_IF_ERROR(NestedStep(*sharding, nothing));
            ZEROTH_RETURN_IF_ERROR(NestedStep(*sharding, [&]() -> absl::Status {
              ZEROTH_TOY_EXPECT(sharding->scheduler().IsPrefetched(*sharding->units()[2]));
              return absl::OkStatus();
            }));
            const MemoryStats memory = device.allocator().stats();
            const int64_t turns = 2 * 4 * (matrix.numel() + norm.numel());
            const int64_t shards = 3 * 4 * (matrix.numel() + norm.numel()) / 2;
            ZEROTH_TOY_EXPECT(memory[MemoryCategory::kGatheredParameters].peak_bytes <= turns);
            ZEROTH_TOY_EXPECT(memory[MemoryCategory::kGradients].peak_bytes <= shards + turns);
            return CheckAtRest(*sharding);
          }),
      absl::OkStatus());
}

// Units nested in blocks that are recomputed in backward (activation checkpointing).
absl::Status RecomputingStep(Sharding& sharding) {
  Scheduler& scheduler = sharding.scheduler();
  const absl::Span<Unit* const> units = sharding.units();
  for (size_t block = 0; block < units.size(); block += 2) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*units[block]));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*units[block + 1], /*expects_backward=*/false));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*units[block + 1], /*expects_backward=*/false));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*units[block]));
  }
  for (size_t block = units.size(); block > 0; block -= 2) {
    Unit& norm = *units[block - 1];
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(*units[block - 2]));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(norm));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(norm));
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(norm));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(norm));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(*units[block - 2]));
  }
  ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
  return scheduler.EndStep();
}

TEST(SchedulerTest, RecomputingABlockGathersNoneThatIsDoneWith) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          const Shape matrix({64, 64});
                          const Shape norm({64});
                          ToyModel model({{"a", {matrix}},
                                          {"a.norm", {norm}},
                                          {"b", {matrix}},
                                          {"b.norm", {norm}},
                                          {"c", {matrix}},
                                          {"c.norm", {norm}}});
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model,
                                                                          OptionsOf("full_shard")));
                          CallCounter calls(*sharding);
                          for (int step = 0; step < 3; ++step) {
                            ZEROTH_RETURN_IF_ERROR(RecomputingStep(*sharding));
                            // All units are gathered in forward and again in backward. A norm's
                            // second gather is for its recomputed forward, and stays for its
                            // backward.
                            ZEROTH_TOY_EXPECT(calls.Take(CollectiveOp::kAllGather) == 2 * 6);
                          }
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
}

// Runs blocks of one unit with `inside` nested units, which backward recomputes as a whole; `units`
// are each block followed by its nested units.
absl::Status RecomputingStepOf(Sharding& sharding, size_t inside) {
  Scheduler& scheduler = sharding.scheduler();
  const absl::Span<Unit* const> units = sharding.units();
  const auto forward = [&](size_t block, bool expects_backward) -> absl::Status {
    for (size_t i = block + 1; i <= block + inside; ++i) {
      ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*units[i], expects_backward));
      ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*units[i], expects_backward));
    }
    return absl::OkStatus();
  };
  for (size_t block = 0; block < units.size(); block += inside + 1) {
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(*units[block]));
    ZEROTH_RETURN_IF_ERROR(forward(block, /*expects_backward=*/false));
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(*units[block]));
  }
  for (size_t end = units.size(); end > 0; end -= inside + 1) {
    const size_t block = end - inside - 1;
    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(*units[block]));
    ZEROTH_RETURN_IF_ERROR(forward(block, /*expects_backward=*/true));
    for (size_t i = block + inside; i > block; --i) {
      ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(*units[i]));
      ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(*units[i]));
    }
    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(*units[block]));
  }
  return scheduler.FinishBackward();
}

// A recomputed block has four nested units. Besides the block's, each free buffer keeps a nested
// unit gathered for its backward, at least one. The others are gathered a third time.
TEST(SchedulerTest, RecomputedUnitsStayGatheredWithinTheBuffers) {
  constexpr int kInside = 4;
  constexpr int kBlocksOfFive = 3;
  for (const bool syncs : {true, false}) {
    for (const int buffers : {1, 2, 3, 4, 5, 6}) {
      EXPECT_EQ(
          RunToyRanks(
              2,
              [&](Communicator& world, Device& device) -> absl::Status {
                const Shape matrix({64, 64});
                std::vector<ToyUnit> units;
                for (int i = 0; i < kBlocksOfFive * (kInside + 1); ++i) {
                  units.push_back({absl::StrCat("u", i), {matrix}});
                }
                ToyModel model(units);
                ShardingOptions options = OptionsOf("full_shard");
                options.scheduler.gather_buffers = buffers;
                ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
                CallCounter calls(*sharding);
                for (int step = 0; step < 3; ++step) {
                  if (!syncs) {
                    sharding->scheduler().SetRequiresGradientSync(false);
                    ZEROTH_RETURN_IF_ERROR(RecomputingStepOf(*sharding, kInside));
                    sharding->scheduler().SetRequiresGradientSync(true);
                  }
                  // The first step has yet to learn the order.
                  if (step > 0) device.allocator().ResetPeaks();
                  const int64_t before = calls.Take(CollectiveOp::kAllGather);
                  ZEROTH_RETURN_IF_ERROR(RecomputingStepOf(*sharding, kInside));
                  const int64_t gathers = calls.Take(CollectiveOp::kAllGather);
                  const int64_t most =
                      device.allocator().stats()[MemoryCategory::kGatheredParameters].peak_bytes;
                  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
                  if (step == 0) continue;
                  const int kept = std::clamp(buffers - 1, 1, kInside);
                  const int64_t expected = kBlocksOfFive * (2 + 3 * kInside - kept);
                  if (gathers != expected || (!syncs && before != expected) ||
                      most != std::max(2, buffers) * 4 * matrix.numel()) {
                    return absl::InternalError(
                        absl::StrCat(buffers, " buffers: ", gathers, " and before ", before,
                                     " gathers, expected ", expected, "; peak ", most));
                  }
                }
                return CheckAtRest(*sharding);
              }),
          absl::OkStatus());
    }
  }
}

// An explicit prefetch is always gathered, and kept units are freed for it. At least the block, the
// unit in use and the next one are gathered.
TEST(SchedulerTest, KeptUnitsGiveWayToAChosenPrefetch) {
  constexpr size_t kInside = 4;
  for (const int buffers : {1, 3, 4, 5}) {
    EXPECT_EQ(
        RunToyRanks(
            2,
            [&](Communicator& world, Device& device) -> absl::Status {
              const Shape matrix({64, 64});
              std::vector<ToyUnit> units;
              for (size_t i = 0; i < 2 * (kInside + 1); ++i) {
                units.push_back({absl::StrCat("u", i), {matrix}});
              }
              ToyModel model(units);
              ShardingOptions options = OptionsOf("full_shard");
              options.scheduler.gather_buffers = buffers;
              ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model, options));
              Scheduler& scheduler = sharding->scheduler();
              const absl::Span<Unit* const> all = sharding->units();
              for (size_t i = 0; i + 1 < all.size(); ++i) {
                std::vector<Unit*> next;
                if ((i + 1) % (kInside + 1) != 0) next.push_back(all[i + 1]);
                ZEROTH_RETURN_IF_ERROR(scheduler.SetForwardPrefetch(*all[i], next));
              }
              for (int step = 0; step < 3; ++step) {
                if (step > 0) device.allocator().ResetPeaks();
                ZEROTH_RETURN_IF_ERROR(RecomputingStepOf(*sharding, kInside));
                ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
              }
              const int64_t most =
                  device.allocator().stats()[MemoryCategory::kGatheredParameters].peak_bytes;
              if (most != std::max(3, buffers) * 4 * matrix.numel()) {
                return absl::InternalError(absl::StrCat(buffers, " buffers: a peak of ", most));
              }
              return CheckAtRest(*sharding);
            }),
        absl::OkStatus());
  }
}

TEST(SchedulerTest, StrictPrefetchRefusesWhatMakesNoSense) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(kBlocks));
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model,
                                                                          OptionsOf("full_shard")));
                          Scheduler& scheduler = sharding->scheduler();
                          Unit& unit = *sharding->FindUnit("h.1");
                          ZEROTH_TOY_EXPECT(!scheduler.IsPrefetched(unit));
                          ZEROTH_RETURN_IF_ERROR(scheduler.Prefetch(unit));
                          ZEROTH_TOY_EXPECT(scheduler.IsPrefetched(unit));
                          ZEROTH_RETURN_IF_ERROR(ExpectError(scheduler.Prefetch(unit),
                                                             absl::StatusCode::kInvalidArgument,
                                                             {"'h.1'", "already gathering"}));
                          ZEROTH_RETURN_IF_ERROR(scheduler.Gather(unit));
                          ZEROTH_TOY_EXPECT(!scheduler.IsPrefetched(unit));
                          ZEROTH_RETURN_IF_ERROR(ExpectError(scheduler.Prefetch(unit),
                                                             absl::StatusCode::kInvalidArgument,
                                                             {"'h.1'", "already gathered"}));
                          ZEROTH_RETURN_IF_ERROR(scheduler.Reshard(unit));
                          // These exceed the buffers: explicit requests are always fulfilled.
                          for (Unit* each : sharding->units())
                            ZEROTH_RETURN_IF_ERROR(scheduler.Prefetch(*each));
                          ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, SimpleStep()));
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(1));
                          ZEROTH_ASSIGN_OR_RETURN(
                              auto sharding, ShardToy(world, device, model, OptionsOf("no_shard")));
                          return ExpectError(sharding->scheduler().Prefetch(*sharding->units()[0]),
                                             absl::StatusCode::kInvalidArgument,
                                             {"'root'", "'no_shard'"});
                        }),
            absl::OkStatus());
}

// The gather reads the shards of all ranks; the optimizer must not write them before it has ended.
TEST(SchedulerTest, AnUnusedPrefetchIsOverBeforeTheUpdate) {
  EXPECT_EQ(RunToyRanks(4,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(kBlocks));
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model,
                                                                          OptionsOf("full_shard")));
                          Unit& unit = *sharding->FindUnit("h.2");
                          ToyStep step = SimpleStep();
                          step.hook = [&](absl::string_view stage, const Unit*) -> absl::Status {
                            if (stage == "before finish") {
                              // All reductions are in flight, so only this rank's gather blocks the
                              // others.
                              if (world.rank() == 1)
                                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                              return sharding->scheduler().Prefetch(unit);
                            }
                            if (stage == "before update")
                              ZEROTH_TOY_EXPECT(unit.gather_event()->IsDone());
                            return absl::OkStatus();
                          };
                          step.lr = 1;
                          ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, step));
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
}

TEST(SchedulerTest, GatheringWhatIsGatheredDoesNothing) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(kBlocks));
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model,
                                                                          OptionsOf("full_shard")));
                          Scheduler& scheduler = sharding->scheduler();
                          Unit& unit = *sharding->FindUnit("h.0");
                          ZEROTH_RETURN_IF_ERROR(scheduler.Gather(unit));
                          CallCounter counter(*sharding);
                          ZEROTH_RETURN_IF_ERROR(scheduler.Gather(unit));
                          ZEROTH_TOY_EXPECT(counter.Take(CollectiveOp::kAllGather) == 0);
                          ZEROTH_RETURN_IF_ERROR(scheduler.Reshard(unit));
                          ZEROTH_TOY_EXPECT(unit.state() == UnitState::kGathered);
                          // A pass over it does not free it either.
                          ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit, false));
                          ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit, false));
                          ZEROTH_TOY_EXPECT(unit.state() == UnitState::kGathered);
                          // EndStep does not free it either: it is refused.
                          ZEROTH_RETURN_IF_ERROR(ExpectError(scheduler.EndStep(),
                                                             absl::StatusCode::kFailedPrecondition,
                                                             {"'h.0'", "in use", "Reshard"}));
                          ZEROTH_TOY_EXPECT(unit.state() == UnitState::kGathered);
                          ZEROTH_RETURN_IF_ERROR(scheduler.Reshard(unit));
                          ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
                          return ExpectError(scheduler.Reshard(unit),
                                             absl::StatusCode::kFailedPrecondition,
                                             {"'h.0'", "Reshard without Gather", "sharded"});
                        }),
            absl::OkStatus());
}

TEST(SchedulerTest, ReshardUndoesUnshard) {
  EXPECT_EQ(RunToyRanks(2,
                        [](Communicator& world, Device& device) -> absl::Status {
                          ToyModel model(UniformUnits(kBlocks));
                          ZEROTH_ASSIGN_OR_RETURN(auto sharding, ShardToy(world, device, model,
                                                                          OptionsOf("full_shard")));
                          Scheduler& scheduler = sharding->scheduler();
                          Unit& unit = *sharding->FindUnit("h.0");
                          for (const bool async : {false, true}) {
                            ZEROTH_RETURN_IF_ERROR(scheduler.Unshard(unit, async).status());
                            ZEROTH_RETURN_IF_ERROR(scheduler.Reshard(unit));
                            ZEROTH_RETURN_IF_ERROR(CheckAtRest(*sharding));
                          }
                          ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, SimpleStep()));
                          return CheckAtRest(*sharding);
                        }),
            absl::OkStatus());
}

TEST(SchedulerTest, CallsInTheWrongOrderSaySo) {
  EXPECT_EQ(
      RunToyRanks(
          2,
          [](Communicator& world, Device& device) -> absl::Status {
            ToyModel model(UniformUnits(kBlocks));
            ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                    ShardToy(world, device, model, OptionsOf("full_shard")));
            Scheduler& scheduler = sharding->scheduler();
            Unit& unit = *sharding->FindUnit("h.0");
            const auto expect = [](const absl::Status& status,
                                   const std::vector<std::string>& parts) {
              return ExpectError(status, absl::StatusCode::kFailedPrecondition, parts);
            };
            ZEROTH_RETURN_IF_ERROR(expect(scheduler.FinishBackward(), {"no forward"}));
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.AfterForward(unit), {"'h.0'", "BeforeForward"}));
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.BeforeBackward(unit), {"'h.0'", "without a forward"}));
            ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
            ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.AfterBackward(unit), {"'h.0'", "BeforeBackward"}));
            ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(unit));
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.BeforeBackward(unit), {"'h.0'", "without a forward"}));
            ZEROTH_RETURN_IF_ERROR(unit.parameters()[0]->TakeGradient().status());
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.EndStep(), {"'h.0'", "'full'", "FinishBackward"}));
            ZEROTH_RETURN_IF_ERROR(expect(sharding->Load(ReaderOf(ToyValue)), {"'h.0'", "load"}));
            ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(unit));
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.EndStep(), {"'h.0'", "'reduced'", "FinishBackward"}));
            ZEROTH_RETURN_IF_ERROR(
                expect(scheduler.BeforeForward(unit), {"'h.0'", "complete", "FinishBackward"}));
            ZEROTH_RETURN_IF_ERROR(
                expect(unit.parameters()[0]->TakeGradient().status(), {"'h.0.0'", "complete"}));
            ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
            ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
            ZEROTH_RETURN_IF_ERROR(RunToyStep(*sharding, SimpleStep()));
            return CheckAtRest(*sharding);
          }),
      absl::OkStatus());
}

// Units of equal size would silently exchange values if only sizes were compared.
TEST(SchedulerTest, RanksThatUseUnitsInDifferentOrderGetTheirNames) {
  const absl::Status status =
      RunToyRanks(2, [](Communicator& world, Device& device) -> absl::Status {
        ToyModel model(UniformUnits(2));
        ZEROTH_ASSIGN_OR_RETURN(auto sharding,
                                ShardToy(world, device, model, OptionsOf("full_shard")));
        ToyStep step = SimpleStep();
        step.order = {sharding->units()[1], sharding->units()[2]};
        if (world.rank() == 1) std::swap(step.order[0], step.order[1]);
        return RunToyStep(*sharding, step);
      });
  EXPECT_EQ(ExpectError(status, absl::StatusCode::kFailedPrecondition,
                        {"rank 0", "all_gather 'h.0'", "rank 1", "all_gather 'h.1'"}),
            absl::OkStatus());
}

TEST(SchedulerTest, BuffersBelowOneAreRefused) {
  EXPECT_EQ(RunToyRanks(
                2,
                [](Communicator& world, Device& device) -> absl::Status {
                  ToyModel model(UniformUnits(1));
                  ShardingOptions options;
                  options.scheduler.gather_buffers = 0;
                  ZEROTH_RETURN_IF_ERROR(ExpectError(
                      ShardToy(world, device, model, options).status(),
                      absl::StatusCode::kInvalidArgument, {"gather_buffers = 0", "at least 1"}));
                  options.scheduler.gather_buffers = 1;
                  options.scheduler.gradient_buffers = -1;
                  return ExpectError(ShardToy(world, device, model, options).status(),
                                     absl::StatusCode::kInvalidArgument, {"gradient_buffers = -1"});
                }),
            absl::OkStatus());
}

// Nothing that reads a parameter in forward keeps the gathered buffer alive until backward.
TEST(SchedulerTest, BetweenForwardAndBackwardOnlyTheRootIsGathered) {
  EXPECT_EQ(
      RunToyRanks(2,
                  [](Communicator& world, Device& device) -> absl::Status {
                    Parameter weight("weight", Shape({1, 4}));
                    Parameter bias("bias", Shape({}));
                    ShardingOptions options;
                    ZEROTH_ASSIGN_OR_RETURN(
                        auto sharding,
                        Sharding::Create(world, device, options, {{"linear", {&weight, &bias}}}));
                    ZEROTH_RETURN_IF_ERROR(
                        sharding->Load(ReaderOf([](const Parameter& parameter, int64_t i) {
                          return parameter.name() == "weight" ? static_cast<float>(i + 1) : 0.0f;
                        })));
                    Unit& unit = *sharding->units()[0];
                    Scheduler& scheduler = sharding->scheduler();
                    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeForward(unit));
                    float output = 0;
                    for (int i = 0; i < 4; ++i) output += 2 * weight.data().data<float>()[i];
                    ZEROTH_TOY_EXPECT(output == 20);
                    ZEROTH_RETURN_IF_ERROR(scheduler.AfterForward(unit));
                    ZEROTH_TOY_EXPECT(unit.state() == UnitState::kSharded &&
                                      !weight.data().defined());
                    CallCounter counter(*sharding);
                    ZEROTH_RETURN_IF_ERROR(scheduler.BeforeBackward(unit));
                    ZEROTH_TOY_EXPECT(counter.Take(CollectiveOp::kAllGather) == 1);
                    ZEROTH_TOY_EXPECT(weight.data().data<float>()[3] == 4);
                    ZEROTH_RETURN_IF_ERROR(scheduler.AfterBackward(unit));
                    ZEROTH_RETURN_IF_ERROR(scheduler.FinishBackward());
                    ZEROTH_RETURN_IF_ERROR(scheduler.EndStep());
                    return CheckAtRest(*sharding);
                  }),
      absl::OkStatus());
}

}  // namespace
}  // namespace zeroth
