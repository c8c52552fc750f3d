// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/step_trace.h"

#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

// The labels that a run leaves in the file, each step marking its number: one of `steps` steps that
// makes `made` of them, of which `planned` were to be made in all.
std::vector<std::string> Traced(int64_t planned, int64_t steps, int64_t made) {
  const std::string path = testing::TempDir() + "/trace.json";
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions());
  absl::StatusOr<StepTrace> trace = StepTrace::Create(path, planned);
  EXPECT_TRUE(trace.ok()) << trace.status();
  trace->set_steps(steps);
  int written = 0;
  for (int64_t step = 0; step < made; ++step) {
    trace->BeforeStep(step);
    const std::string label = std::to_string(step);
    EXPECT_TRUE(trace->timeline()->Begin(device->compute_stream(), label).ok());
    EXPECT_TRUE(trace->timeline()->End(device->compute_stream(), label).ok());
    const absl::StatusOr<bool> wrote = trace->AfterStep(step);
    EXPECT_TRUE(wrote.ok()) << wrote.status();
    written += *wrote ? 1 : 0;
  }
  const absl::StatusOr<bool> finished = trace->Finish();
  EXPECT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(written + (*finished ? 1 : 0), 1);
  std::vector<std::string> labels;
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  for (const nlohmann::json& event : json["traceEvents"]) {
    if (event["ph"] == "X") labels.push_back(event["name"].get<std::string>());
  }
  return labels;
}

std::vector<std::string> Traced(int64_t steps) { return Traced(steps, steps, steps); }

TEST(StepTraceTest, RecordsStepsAfterTheFirstWhereThereAreSome) {
  EXPECT_EQ(Traced(100), (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(Traced(4), (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(Traced(2), (std::vector<std::string>{"1"}));
  EXPECT_EQ(Traced(1), (std::vector<std::string>{"0"}));
  EXPECT_TRUE(Traced(0).empty());
}

TEST(StepTraceTest, RunsThatGoOnMakeFewerSteps) {
  EXPECT_EQ(Traced(100, 2, 2), (std::vector<std::string>{"1"}));
  EXPECT_EQ(Traced(100, 4, 4), (std::vector<std::string>{"2", "3"}));
}

TEST(StepTraceTest, RunsThatEndEarlyLeaveWhatThereIs) {
  EXPECT_EQ(Traced(100, 100, 4), (std::vector<std::string>{"2", "3"}));
  EXPECT_TRUE(Traced(100, 100, 1).empty());
}

TEST(StepTraceTest, AFileThatCannotBeWrittenIsRefusedAtOnce) {
  const absl::Status status = StepTrace::Create("/no/such/folder/trace.json", 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(status.ToString().find("--trace=/no/such/folder/trace.json"), std::string::npos);
}

}  // namespace
}  // namespace zeroth
