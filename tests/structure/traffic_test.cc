// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the traffic of a GPT-2 step, from the communicators' records: number, bytes and order of
// collectives, under every strategy, with and without micro-batches.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth::testing {
namespace {

constexpr int kWorld = 4;
constexpr int kHybridGroup = 2;

struct TrafficCase {
  std::string strategy;
  int micro_batches = 1;
  bool sync_every = true;
  bool reshard_after_forward = true;
  int post_forward_group = 0;  // 0: freed entirely
  DType wire = DType::kFloat32;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  LayoutKind layout = LayoutKind::kFlat;
  bool optimizer_over_world = false;
  bool asks_for_groups = false;

  bool has_groups() const { return strategy == "hybrid_shard" || asks_for_groups; }
  int shard_size() const {
    if (strategy == "no_shard") return 1;
    return has_groups() ? kHybridGroup : kWorld;
  }
  bool frees() const { return strategy == "full_shard" || strategy == "hybrid_shard"; }
  TrainerOptions options() const {
    TrainerOptions trainer = OptionsOf(strategy, has_groups() ? kHybridGroup : 0);
    trainer.sync_every_micro_batch = sync_every;
    trainer.sharding.strategy_options.reshard_after_forward = reshard_after_forward;
    trainer.sharding.strategy_options.post_forward_shard_size = post_forward_group;
    trainer.sharding.mixed_precision.param_dtype = wire;
    trainer.sharding.mixed_precision.reduce_dtype = wire;
    trainer.sharding.scheduler.backward_prefetch = backward_prefetch;
    trainer.sharding.layout = layout;
    trainer.sharding.strategy_options.shard_optimizer_over_world = optimizer_over_world;
    return trainer;
  }
  std::string name() const {
    std::string text = absl::StrCat(strategy, "_micro", micro_batches);
    if (micro_batches > 1) absl::StrAppend(&text, sync_every ? "_every" : "_last");
    if (!reshard_after_forward) absl::StrAppend(&text, "_kept");
    if (post_forward_group > 0) absl::StrAppend(&text, "_groups_of_", post_forward_group);
    if (backward_prefetch == BackwardPrefetch::kPost) absl::StrAppend(&text, "_post");
    if (backward_prefetch == BackwardPrefetch::kNone) absl::StrAppend(&text, "_none");
    if (layout == LayoutKind::kRows) absl::StrAppend(&text, "_rows");
    if (optimizer_over_world) absl::StrAppend(&text, "_owners_over_world");
    if (asks_for_groups) absl::StrAppend(&text, "_in_groups");
    return absl::StrCat(text, "_", DTypeName(wire));
  }
};

std::vector<TrafficCase> AllCases() {
  std::vector<TrafficCase> cases;
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    for (const DType wire : {DType::kFloat32, DType::kBFloat16}) {
      for (const auto& [micro_batches, sync_every] :
           {std::pair(1, true), std::pair(3, true), std::pair(3, false)}) {
        TrafficCase plain{strategy, micro_batches, sync_every};
        plain.wire = wire;
        cases.push_back(plain);
        TrafficCase kept = plain;
        kept.reshard_after_forward = false;
        cases.push_back(kept);
        if (plain.strategy == "shard_optimizer" || plain.strategy == "shard_grad_op") {
          cases.push_back(plain);
          cases.back().asks_for_groups = true;
        }
        for (const int group : {1, 2}) {
          if (!plain.frees()) continue;
          TrafficCase grouped = plain;
          grouped.post_forward_group = group;
          cases.push_back(grouped);
        }
      }
    }
  }
  for (const char* strategy : {"full_shard", "hybrid_shard"}) {
    for (const int group : {0, 2}) {
      TrafficCase grouped{strategy, 3};
      grouped.post_forward_group = group;
      for (const auto when : {BackwardPrefetch::kPost, BackwardPrefetch::kNone}) {
        grouped.backward_prefetch = when;
        cases.push_back(grouped);
      }
      TrafficCase rows{strategy, 3};
      rows.post_forward_group = group;
      rows.layout = LayoutKind::kRows;
      cases.push_back(rows);
    }
  }
  const std::vector<TrafficCase> in_groups = cases;
  for (TrafficCase over_world : in_groups) {
    over_world.optimizer_over_world = true;
    if (over_world.strategy == "hybrid_shard") cases.push_back(over_world);
  }
  return cases;
}

struct Total {
  int64_t calls = 0;
  int64_t bytes = 0;
  bool operator==(const Total&) const = default;
};
using Totals = std::map<std::string, Total>;

std::string ToString(const Totals& totals) {
  return absl::StrJoin(totals, ", ", [](std::string* out, const auto& total) {
    absl::StrAppend(out, total.first, " ", total.second.calls, " times ", total.second.bytes,
                    " bytes");
  });
}

// The literature's table for one step, in units and bytes: f(n) = (n - 1) / n of the full buffer
// for a gather or a reduce-scatter, twice that for an all-reduce.
Totals Predicted(const TrafficCase& c) {
  const int64_t b = static_cast<int64_t>(SizeOf(c.wire));
  // Micro-batches accumulate in fp32, which is also sent.
  const bool adds_up_in_full = c.micro_batches > 1 && (!c.sync_every || c.strategy == "no_shard" ||
                                                       c.strategy == "shard_optimizer");
  const int64_t of_gradient = adds_up_in_full ? 4 : b;
  const auto sent = [](int64_t full_bytes, int64_t n) { return full_bytes * (n - 1) / n; };
  const int64_t shards = c.shard_size();
  const int64_t micro = c.micro_batches;
  // Under LayoutKind::kRows each parameter is a collective.
  const bool rows = c.layout == LayoutKind::kRows;
  const int64_t of_blocks = kBlocks * (rows ? kBlockParameters : 1);
  const int64_t of_all = of_blocks + (rows ? kRootParameters : 1);
  Totals totals;
  if (c.strategy == "no_shard") {
    totals["all"] = {of_all, 2 * sent(of_gradient * kNumel, kWorld)};
    return totals;
  }
  // Units that a step keeps are gathered once, those that are freed in each micro-batch.
  const int64_t forwards = c.frees() ? micro : 1;
  totals["gather"] = {forwards * of_all, forwards * sent(b * kNumel, shards)};
  if (c.frees() && c.reshard_after_forward) {
    // The root stays gathered.
    const int64_t group = c.post_forward_group > 0 ? c.post_forward_group : shards;
    const Total again = {micro * of_blocks, micro * sent(b * kBlocks * kBlockNumel, group)};
    if (c.post_forward_group == 0) {
      totals["gather"].calls += again.calls;
      totals["gather"].bytes += again.bytes;
    } else if (group > 1) {
      totals["gather in part"] = again;
    }
  }
  const int64_t reductions = c.sync_every && c.strategy != "shard_optimizer" ? micro : 1;
  totals["reduce"] = {reductions * of_all, reductions * sent(of_gradient * kNumel, shards)};
  if (c.has_groups()) {
    // Always in fp32: intermediate rounding would depend on how ranks are grouped.
    const Total sums = {of_all, sent(4 * kNumel / shards, kWorld / shards)};
    if (c.optimizer_over_world) {
      totals["gather across"] = {of_all, sent(b * kNumel / shards, kWorld / shards)};
      totals["scatter across"] = sums;
    } else {
      totals["across"] = {sums.calls, 2 * sums.bytes};
    }
  }
  return totals;
}

Totals Sum(const std::vector<TrafficRecord::Call>& calls) {
  Totals totals;
  for (const TrafficRecord::Call& call : calls) {
    if (call.what == "norm") continue;
    Total& total = totals[call.what];
    ++total.calls;
    total.bytes += call.bytes;
  }
  return totals;
}

// A micro-batch of full_shard or hybrid_shard, as the scheduler documents it: in backward, the next
// unit's gather goes before this unit's reduction, or after it if it is not to run ahead. Traffic
// crosses groups in the first micro-batch's forward, if owners span groups, and in the last one's
// backward.
void AddMicroBatch(const TrafficCase& c, bool first, bool last, std::vector<std::string>& calls) {
  const auto block = [](int i) { return absl::StrCat("(h.", i, ")"); };
  const bool again = c.reshard_after_forward && c.post_forward_group != 1;
  const std::string gather = c.post_forward_group > 1 ? "gather in part" : "gather";
  const auto reduce = [&](const std::string& unit) {
    if (!c.sync_every && !last) return;
    calls.push_back("reduce" + unit);
    if (!last || c.strategy != "hybrid_shard") return;
    calls.push_back((c.optimizer_over_world ? "scatter across" : "across") + unit);
  };
  const auto gather_first = [&](const std::string& unit) {
    if (first && c.optimizer_over_world) calls.push_back("gather across" + unit);
    calls.push_back("gather" + unit);
  };
  gather_first("(root)");
  for (int i = 0; i < kBlocks; ++i) gather_first(block(i));
  const bool ahead = c.backward_prefetch == BackwardPrefetch::kPre;
  if (again) calls.push_back(gather + block(kBlocks - 1));
  for (int i = kBlocks - 1; i >= 0; --i) {
    if (!ahead) reduce(block(i));
    if (again && i > 0) calls.push_back(gather + block(i - 1));
    if (ahead) reduce(block(i));
  }
  reduce("(root)");
}

std::string PredictedOrder(const TrafficCase& c) {
  std::vector<std::string> calls;
  for (int i = 0; i < c.micro_batches; ++i)
    AddMicroBatch(c, i == 0, i + 1 == c.micro_batches, calls);
  calls.push_back("norm()");
  return absl::StrJoin(calls, " ");
}

class TrafficTest : public ::testing::TestWithParam<TrafficCase> {};

TEST_P(TrafficTest, IsTheTableOfTheLiterature) {
  const TrafficCase& c = GetParam();
  const std::string expected = ToString(Predicted(c));
  const absl::Status status =
      RunSmallGpt2(kWorld, c.options(), [&](Trainer& trainer, Device&, int rank) -> absl::Status {
        Sharding& sharding = trainer.sharding();
        const ShardingStats before = sharding.stats();
        EXPECT_EQ(before.padding_numel, 0) << "bytes are not the formula's then";
        EXPECT_EQ(before.total_numel, kNumel);
        TrafficRecord record(sharding);
        trainer.world().stats().EnableRecord(true);
        for (int step = 0; step < 3; ++step) {
          ZEROTH_RETURN_IF_ERROR(
              trainer.Step(MicroBatches(rank, step, c.micro_batches), 1e-3).status());
          const std::vector<TrafficRecord::Call> calls = record.Take();
          EXPECT_EQ(ToString(Sum(calls)), expected) << "step " << step << " of rank " << rank;
          if (c.frees() && c.layout == LayoutKind::kFlat) {
            EXPECT_EQ(TrafficRecord::ToString(calls), PredictedOrder(c))
                << "step " << step << " of rank " << rank;
          }
          // Traffic besides that of units: the losses, and the norm's sum if gradients are sharded.
          const auto others = trainer.world().stats().TakeRecord();
          EXPECT_EQ(others.size(), 1u);
          EXPECT_EQ(others[0].label, "loss");
        }
        // The report equals the record.
        Total reported;
        for (const CommStats::Counter& counter : sharding.stats().collectives) {
          reported.calls += counter.calls;
        }
        for (const auto& [what, total] : Predicted(c)) reported.calls -= 3 * total.calls;
        EXPECT_EQ(reported.calls, c.strategy == "no_shard" ? 0 : 3);  // the norms
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Strategies, TrafficTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& instance) { return instance.param.name(); });

// Sums across groups wait for the last micro-batch, and overlap its backward unit by unit instead
// of running at the end.
TEST(HybridTrafficTest, GroupsMeetInTheLastMicroBatchOnly) {
  TrainerOptions options = OptionsOf("hybrid_shard", kHybridGroup);
  const absl::Status status =
      RunSmallGpt2(kWorld, options, [](Trainer& trainer, Device&, int rank) -> absl::Status {
        TrafficRecord record(trainer.sharding());
        ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(rank, 0, 3), 1e-3).status());
        int reductions = 0;
        std::string last_reduced;
        int across = 0;
        for (const TrafficRecord::Call& call : record.Take()) {
          if (call.what == "reduce") {
            ++reductions;
            last_reduced = call.unit;
          }
          if (call.what != "across") continue;
          ++across;
          EXPECT_GT(reductions, 2 * kUnits) << "before the last micro-batch";
          EXPECT_EQ(call.unit, last_reduced);
        }
        EXPECT_EQ(reductions, 3 * kUnits);
        EXPECT_EQ(across, kUnits);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth::testing
