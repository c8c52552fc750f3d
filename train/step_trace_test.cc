// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/step_trace.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Marks traffic on `stream`. The compute stream waits during its second half.
absl::Status MoveHalfBesideCompute(Timeline& timeline, Stream& compute, Stream& stream) {
  constexpr auto kHalf = std::chrono::milliseconds(20);
  ZEROTH_RETURN_IF_ERROR(timeline.Begin(stream, "all_gather h.1"));
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
  std::this_thread::sleep_for(kHalf);
  ZEROTH_RETURN_IF_ERROR(timeline.Begin(compute, "wait for gather h.1"));
  std::this_thread::sleep_for(kHalf);
  ZEROTH_RETURN_IF_ERROR(timeline.End(stream, "all_gather h.1", 12));
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
  return timeline.End(compute, "wait for gather h.1");
}

// A run of `ranks` whose steps `from` to `to` all mark their number, and its summary of the trace.
absl::Status RunSteps(int ranks, const std::string& trace, int64_t from, int64_t to,
                      const std::string& directory, std::string& said) {
  return RunLocalRanks(ranks, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    StepTrace steps(ParseStepRange(trace), world, *device);
    Stream& compute = device->compute_stream();
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> gather, device->CreateStream("gather"));
    for (int64_t step = from; step <= to; ++step) {
      ZEROTH_RETURN_IF_ERROR(steps.BeforeStep(step));
      ZEROTH_RETURN_IF_ERROR(MoveHalfBesideCompute(*steps.timeline(), compute, *gather));
      ZEROTH_RETURN_IF_ERROR(world.Barrier(compute, "loss"));
      ZEROTH_RETURN_IF_ERROR(steps.AfterStep(step));
      if (!steps.IsComplete(step)) continue;
      ZEROTH_ASSIGN_OR_RETURN(const std::string text, steps.Write(directory));
      if (world.rank() == 0) said = text;
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::string text, steps.Write(directory));
    if (!text.empty() && world.rank() == 0) said = text;
    return absl::OkStatus();
  });
}

std::vector<std::string> StepsIn(const std::string& directory, int rank) {
  std::ifstream file(directory + "/trace.json");
  std::vector<std::string> steps;
  const nlohmann::json trace = nlohmann::json::parse(file);
  for (const nlohmann::json& event : trace["traceEvents"]) {
    const std::string name = event["name"].get<std::string>();
    if (event["pid"] == rank && name.rfind("step ", 0) == 0) steps.push_back(name);
  }
  return steps;
}

// Returns the percentage of the spans `traffic` that lies before the same rank's span `wait`, which
// must not end before `traffic` does.
double PercentBeside(const std::string& traffic, const std::string& wait,
                     const std::string& directory) {
  std::ifstream file(directory + "/trace.json");
  const nlohmann::json trace = nlohmann::json::parse(file);
  double all = 0;
  double beside = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] == traffic) {
      all += event["dur"].get<double>();
      beside -= event["ts"].get<double>();
    }
    if (event["name"] == wait) beside += event["ts"].get<double>();
  }
  return 100 * beside / all;
}

std::string Directory(const std::string& name) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/", name);
  EXPECT_EQ(std::system(("mkdir -p " + directory).c_str()), 0);
  return directory;
}

TEST(StepTraceTest, RangesAreFirstAndLastStep) {
  EXPECT_EQ(ParseStepRange("3:5")->from, 3);
  EXPECT_EQ(ParseStepRange("3:5")->to, 5);
  for (const char* text : {"", "3", "3:", ":3", "0:2", "5:3", "1:2:3", "trace.json"}) {
    EXPECT_FALSE(ParseStepRange(text).has_value()) << text;
  }
}

TEST(StepTraceTest, AllRanksAreInOneFile) {
  const std::string directory = Directory("all");
  std::string said;
  ASSERT_EQ(RunSteps(3, "3:4", 1, 9, directory, said), absl::OkStatus());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(StepsIn(directory, rank), ElementsAre("step 3", "step 4"));
  }
  EXPECT_THAT(said,
              HasSubstr("of 2 steps in " + directory + "/trace.json; exposed communication "));
  EXPECT_THAT(said, HasSubstr("gather h.1 "));
  EXPECT_THAT(said, HasSubstr("barrier loss "));
  const std::string beside = "; overlapped with computation: gather ";
  ASSERT_THAT(said, HasSubstr(beside));
  // Half of it, except for delays of a busy machine in either half: compare with the file's times.
  const double percent = std::stod(said.substr(said.find(beside) + beside.size()));
  EXPECT_NEAR(percent, PercentBeside("all_gather h.1", "wait for gather h.1", directory), 0.06);
}

// Like a resumed run, and one that ends early.
TEST(StepTraceTest, RunsThatMakePartOfTheStepsLeaveThose) {
  std::string said;
  const std::string later = Directory("later");
  ASSERT_EQ(RunSteps(2, "3:5", 5, 7, later, said), absl::OkStatus());
  EXPECT_THAT(StepsIn(later, 1), ElementsAre("step 5"));
  const std::string ended = Directory("ended");
  ASSERT_EQ(RunSteps(2, "3:5", 1, 3, ended, said), absl::OkStatus());
  EXPECT_THAT(StepsIn(ended, 1), ElementsAre("step 3"));
  EXPECT_THAT(said, HasSubstr("of 1 step in "));
}

TEST(StepTraceTest, WithoutTheStepsThereIsNoFile) {
  const std::string directory = Directory("none");
  std::string said;
  ASSERT_EQ(RunSteps(2, "8:9", 1, 3, directory, said), absl::OkStatus());
  ASSERT_EQ(RunSteps(2, "", 1, 3, directory, said), absl::OkStatus());
  EXPECT_EQ(said, "");
  EXPECT_FALSE(std::ifstream(directory + "/trace.json").good());
}

TEST(StepTraceTest, AFileThatCannotBeWrittenIsSaid) {
  std::string said;
  const absl::Status status = RunSteps(2, "1:1", 1, 1, "/no/such/folder", said);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/folder/trace.json"));
}

}  // namespace
}  // namespace zeroth
