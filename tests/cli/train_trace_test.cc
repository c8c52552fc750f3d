// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The file of --trace from a real run: every unit's slices, their nesting and their order.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

struct Slice {
  int rank = 0;
  std::string stream;
  std::string name;
  double begin = 0;
  double end = 0;
  int64_t bytes = -1;
};

struct TraceFile {
  std::vector<Slice> slices;
  std::vector<nlohmann::json> counters;
};

TraceFile ReadTrace(const fs::path& path) {
  const nlohmann::json events = nlohmann::json::parse(Read(path))["traceEvents"];
  std::map<std::pair<int, int>, std::string> streams;
  for (const nlohmann::json& event : events) {
    if (event["name"] != "thread_name") continue;
    streams[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  TraceFile trace;
  for (const nlohmann::json& event : events) {
    if (event["ph"] == "C") trace.counters.push_back(event);
    if (event["ph"] != "X") continue;
    Slice slice;
    slice.rank = event["pid"];
    slice.stream = streams.at({slice.rank, event["tid"]});
    slice.name = event["name"];
    slice.begin = event["ts"];
    slice.end = slice.begin + event["dur"].get<double>();
    if (event.contains("args")) slice.bytes = event["args"]["bytes"];
    trace.slices.push_back(slice);
  }
  return trace;
}

// In order of their start.
std::vector<Slice> Named(const TraceFile& trace, int rank, const std::string& name) {
  std::vector<Slice> found;
  for (const Slice& slice : trace.slices) {
    if (slice.rank == rank && slice.name == name) found.push_back(slice);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  return found;
}

// Slices of one stream of one rank are nested or disjoint.
void ExpectNested(const TraceFile& trace) {
  std::map<std::pair<int, std::string>, std::vector<Slice>> by_stream;
  for (const Slice& slice : trace.slices) by_stream[{slice.rank, slice.stream}].push_back(slice);
  for (auto& [stream, slices] : by_stream) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return std::tuple(a.begin, -a.end) < std::tuple(b.begin, -b.end);
    });
    std::vector<Slice> open;
    for (const Slice& slice : slices) {
      // Times are doubles of microseconds.
      constexpr double kRounding = 0.01;
      while (!open.empty() && open.back().end <= slice.begin + kRounding) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(slice.end, open.back().end + kRounding)
            << stream.second << ": " << slice.name << " in " << open.back().name;
      }
      open.push_back(slice);
    }
  }
}

constexpr int kRanks = 2;
constexpr int kTraced = 2;  // steps

TEST(TrainTraceTest, HoldsEveryUnitOfEveryRank) {
  const fs::path out = Scratch() / "out";
  const Outcome run =
      RunTrainer(With(Reference(out), {"--strategy=full_shard", "--world_size=2", "--batch_size=4",
                                       "--steps=6", "--trace=3:4", "--offload=optimizer"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("trace     of 2 steps in "));
  EXPECT_THAT(run.output, HasSubstr("; exposed communication "));
  const TraceFile trace = ReadTrace(out / "trace.json");
  ExpectNested(trace);
  const std::vector<std::string> units = {"root", "transformer.h.0", "transformer.h.1",
                                          "transformer.h.2"};
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(Named(trace, rank, "step 3").size(), 1u);
    const Slice step = Named(trace, rank, "step 4").at(0);
    std::set<std::string> streams;
    int64_t reads = 0;
    for (const Slice& slice : trace.slices) {
      if (slice.rank == rank) streams.insert(slice.stream);
      if (slice.rank == rank && slice.name == "read moments") reads += slice.bytes;
    }
    EXPECT_GE(streams.size(), 4u) << "compute, gather, reduce, and those of offloading";
    EXPECT_GT(reads, 0);
    for (const std::string& unit : units) {
      for (const char* pass : {"forward ", "backward ", "reduce "}) {
        EXPECT_EQ(Named(trace, rank, pass + unit).size(), static_cast<size_t>(kTraced)) << unit;
      }
      const std::vector<Slice> gathers = Named(trace, rank, "gather " + unit);
      const std::vector<Slice> collectives = Named(trace, rank, "all_gather " + unit);
      ASSERT_GE(gathers.size(), static_cast<size_t>(kTraced));
      ASSERT_EQ(collectives.size(), gathers.size());
      for (size_t i = 0; i < gathers.size(); ++i) {
        EXPECT_EQ(collectives[i].stream, gathers[i].stream);
        EXPECT_GE(collectives[i].begin, gathers[i].begin);
        EXPECT_GT(collectives[i].bytes, 0);
      }
      // Gathers end before their unit is used, and gradients before their reduction begins. The
      // slice in the trace ends a little later than the event for which the forward waits.
      EXPECT_LE(collectives[0].end, Named(trace, rank, "forward " + unit)[0].end) << unit;
      for (int i = 0; i < kTraced; ++i) {
        const auto at = static_cast<size_t>(i);
        const Slice backward = Named(trace, rank, "backward " + unit)[at];
        EXPECT_LE(Named(trace, rank, "forward " + unit)[at].end, backward.begin) << unit;
        EXPECT_LE(backward.end, Named(trace, rank, "reduce " + unit)[at].end) << unit;
      }
    }
    const Slice first = Named(trace, rank, "forward transformer.h.0")[1];
    const Slice second = Named(trace, rank, "forward transformer.h.1")[1];
    EXPECT_LE(first.end, second.begin);
    EXPECT_LE(Named(trace, rank, "backward transformer.h.1")[1].end,
              Named(trace, rank, "backward transformer.h.0")[1].begin);
    EXPECT_LE(step.begin, first.begin);
    EXPECT_LE(Named(trace, rank, "optimizer adamw")[1].end, step.end);
    EXPECT_LE(Named(trace, rank, "load data")[1].end, first.begin);
  }
  // A collective ends nowhere before it has begun everywhere; a second of difference would be the
  // clocks', which these ranks share.
  for (int i = 0; i < kTraced; ++i) {
    const auto at = static_cast<size_t>(i);
    const Slice zero = Named(trace, 0, "reduce_scatter transformer.h.0")[at];
    const Slice one = Named(trace, 1, "reduce_scatter transformer.h.0")[at];
    EXPECT_LE(zero.begin, one.end + 1e6);
    EXPECT_LE(one.begin, zero.end + 1e6);
  }
  // Traffic of the traced steps as the run reports it; all of its steps are alike.
  const nlohmann::json account = Metrics(out).back()["summary"]["collectives"];
  int64_t bytes = 0;
  for (const Slice& slice : trace.slices) {
    if (slice.rank == 0 && slice.name.rfind("reduce_scatter ", 0) == 0) bytes += slice.bytes;
  }
  EXPECT_EQ(bytes / kTraced * 6, account["reduce_scatter"]["bytes"].get<int64_t>());
  ASSERT_FALSE(trace.counters.empty());
  EXPECT_GT(trace.counters[0]["args"]["parameters"].get<int64_t>(), 0);
}

// The tensor ranks of a layer communicate on a separate stream; their sums in backward overlap the
// weight gradients on the compute stream.
TEST(TrainTraceTest, TensorRanksTalkBesideGradientsOfWeights) {
  const fs::path out = Scratch() / "out";
  const Outcome run = RunTrainer(
      With(Reference(out), {"--strategy=full_shard", "--world_size=2", "--tensor_parallel=2",
                            "--batch_size=4", "--steps=6", "--trace=3:4"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, ::testing::ContainsRegex("overlapped with computation: .*tensor [0-9]"));
  const TraceFile trace = ReadTrace(out / "trace.json");
  ExpectNested(trace);
  for (int rank = 0; rank < kRanks; ++rank) {
    int64_t bytes = 0;
    for (const Slice& slice : trace.slices) {
      if (slice.rank != rank || slice.stream != "tensor") continue;
      EXPECT_GT(slice.bytes, 0) << slice.name;
      bytes += slice.bytes;
      // Sums of one name are those of forward or backward, in turn with the compute stream's waits.
      const std::vector<Slice> same = Named(trace, rank, slice.name);
      const std::vector<Slice> waits = Named(trace, rank, "wait for " + slice.name);
      ASSERT_EQ(waits.size(), same.size()) << slice.name;
      for (size_t i = 0; i < same.size(); ++i) {
        EXPECT_EQ(waits[i].stream, "compute");
        EXPECT_LE(same[i].end, waits[i].end) << slice.name;
        if (i == 0) continue;
        EXPECT_LE(waits[i - 1].end, same[i].begin) << slice.name;
      }
    }
    // The table of docs/parallelism.md, of three blocks of width 60 and 4 sequences of 32 tokens.
    // Two ranks send a buffer once for its sum, and half of it for a gather.
    constexpr int64_t kTokens = 4 * 32;
    EXPECT_EQ(bytes, kTraced * ((4 * 3 + 2) * kTokens * 60 * 4 + kTokens * 12 * 2 / 2));
    for (int block = 0; block < 3; ++block) {
      for (const char* layer : {"attn.c_attn", "mlp.c_fc"}) {
        const std::string sum =
            "all_reduce transformer.h." + std::to_string(block) + "." + layer + ".weight";
        const std::vector<Slice> sums = Named(trace, rank, sum);
        const std::vector<Slice> products = Named(trace, rank, "beside " + sum);
        const std::vector<Slice> waits = Named(trace, rank, "wait for " + sum);
        ASSERT_EQ(sums.size(), static_cast<size_t>(kTraced)) << sum;
        ASSERT_EQ(products.size(), sums.size()) << sum;
        for (size_t i = 0; i < sums.size(); ++i) {
          EXPECT_EQ(products[i].stream, "compute");
          EXPECT_LE(products[i].end, waits[i].begin) << sum;
        }
      }
    }
  }
}

// Steps that wait for the verdict on their loss and norm have the slices of other steps.
TEST(TrainTraceTest, HoldsTheNormAndTheUpdateOfEveryKindOfStep) {
  for (const bool judges : {false, true}) {
    const fs::path out = Scratch() / (judges ? "judged" : "plain");
    std::vector<std::string> flags = {"--world_size=2", "--batch_size=4", "--steps=6",
                                      "--trace=3:4", "--ema_decay=0.9"};
    if (judges) flags.push_back("--skip_grad_norm_zscore=6");
    const Outcome run = RunTrainer(With(Reference(out), flags));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const TraceFile trace = ReadTrace(out / "trace.json");
    ExpectNested(trace);
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<Slice> norms = Named(trace, rank, "gradient norm");
      const std::vector<Slice> updates = Named(trace, rank, "optimizer adamw");
      const std::vector<Slice> averages = Named(trace, rank, "average weights");
      ASSERT_EQ(norms.size(), static_cast<size_t>(kTraced)) << judges;
      ASSERT_EQ(updates.size(), norms.size()) << judges;
      ASSERT_EQ(averages.size(), norms.size()) << judges;
      for (size_t i = 0; i < norms.size(); ++i) {
        EXPECT_EQ(norms[i].stream, "compute");
        EXPECT_LE(norms[i].end, updates[i].begin);
        EXPECT_LE(updates[i].end, averages[i].begin);
      }
    }
  }
}

TEST(TrainTraceTest, AFileNameAsInEarlierVersionsIsRefused) {
  const Outcome run = RunTrainer(With(Reference(Scratch() / "out"), {"--trace=trace.json"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("expected FROM:TO"));
}

}  // namespace
}  // namespace zeroth::testing
