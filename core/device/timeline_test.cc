// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/timeline.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

class TimelineTest : public testing::Test {
 protected:
  std::shared_ptr<Device> device_ = *DeviceRegistry::Create("cpu", DeviceOptions());
  std::unique_ptr<Stream> side_ = *device_->CreateStream("side");
  Timeline timeline_;
};

TEST_F(TimelineTest, RecordsNothingUntilItIsToldTo) {
  ASSERT_TRUE(timeline_.Begin(*side_, "work").ok());
  ASSERT_TRUE(timeline_.End(*side_, "work").ok());
  EXPECT_TRUE(timeline_.Take()->empty());
}

TEST_F(TimelineTest, SpansNestAndStreamsAreApart) {
  timeline_.set_recording(true);
  Stream& compute = device_->compute_stream();
  ASSERT_TRUE(timeline_.Begin(compute, "root").ok());
  ASSERT_TRUE(timeline_.Begin(*side_, "gather").ok());
  ASSERT_TRUE(timeline_.Begin(compute, "block").ok());
  ASSERT_TRUE(timeline_.End(compute, "block").ok());
  ASSERT_TRUE(timeline_.End(*side_, "gather").ok());
  ASSERT_TRUE(timeline_.End(compute, "root").ok());
  const absl::StatusOr<std::vector<Timeline::Span>> spans = timeline_.Take();
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(spans->size(), 3u);
  const auto find = [&](const std::string& label) {
    for (const Timeline::Span& span : *spans) {
      if (span.label == label) return span;
    }
    ADD_FAILURE() << label;
    return Timeline::Span();
  };
  EXPECT_LE(find("root").begin, find("block").begin);
  EXPECT_LE(find("block").begin, find("block").end);
  EXPECT_LE(find("block").end, find("root").end);
  EXPECT_EQ(find("gather").stream, "side");
  EXPECT_TRUE(timeline_.Take()->empty()) << "taking forgets";
}

TEST_F(TimelineTest, AddsUpWhatTheComputeStreamWaits) {
  Stream& compute = device_->compute_stream();
  const auto wait_once = [&](Stream& stream) {
    return TimedWait(&timeline_, stream, kWaitFor, "work", [&]() -> absl::Status {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (std::chrono::steady_clock::now() < until) continue;
      return absl::OkStatus();
    });
  };
  ASSERT_TRUE(wait_once(compute).ok());
  EXPECT_EQ(*timeline_.Waited(), 0) << "nobody has asked";
  timeline_.set_counts_waits(true);
  ASSERT_TRUE(wait_once(*side_).ok());
  EXPECT_EQ(*timeline_.Waited(), 0) << "another stream may wait";
  EXPECT_TRUE(timeline_.Take()->empty()) << "counting records nothing";
  timeline_.set_recording(true);
  ASSERT_TRUE(wait_once(compute).ok());
  ASSERT_TRUE(wait_once(compute).ok());
  const absl::StatusOr<std::vector<Timeline::Span>> recorded = timeline_.Take();
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  double inside = 0;
  for (const Timeline::Span& span : *recorded) inside += span.end - span.begin;
  EXPECT_GE(inside, 4e-3);
  EXPECT_GE(*timeline_.Waited(), inside) << "a span lies inside of the wait";
  timeline_.set_counts_waits(false);
  EXPECT_EQ(*timeline_.Waited(), 0) << "forgotten";
}

// A stream that breaks at its second mark.
class BreakingStream final : public Stream {
 public:
  explicit BreakingStream(Stream& compute) : compute_(compute) {}

  Device& device() const override { return compute_.device(); }
  absl::string_view name() const override { return "breaking"; }
  absl::StatusOr<std::shared_ptr<Event>> Record() override { return compute_.Record(); }
  absl::StatusOr<std::shared_ptr<Event>> RecordTime() override {
    if (marks_++ > 0) return absl::InternalError("the stream is broken");
    return compute_.RecordTime();
  }
  absl::Status Wait(const std::shared_ptr<Event>& event) override { return compute_.Wait(event); }
  absl::Status Synchronize() override { return compute_.Synchronize(); }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  Stream& compute_;
  int marks_ = 0;
};

TEST_F(TimelineTest, TheErrorOfTheWorkComesBeforeThatOfTheMarkAfterIt) {
  timeline_.set_recording(true);
  const auto run = [&](const absl::Status& of_work) {
    BreakingStream stream(device_->compute_stream());
    return Timed(&timeline_, stream, "run", "work", [&] { return of_work; });
  };
  EXPECT_EQ(run(absl::DataLossError("the work's")).message(), "the work's");
  EXPECT_EQ(run(absl::OkStatus()).message(), "the stream is broken");
  const auto wait = [&]() -> absl::StatusOr<int> {
    BreakingStream stream(device_->compute_stream());
    return TimedWait(&timeline_, stream, kWaitFor, "work",
                     []() -> absl::StatusOr<int> { return absl::DataLossError("the work's"); });
  };
  EXPECT_EQ(wait().status().message(), "the work's");
}

TEST_F(TimelineTest, WhatDoesNotMatchIsNamed) {
  timeline_.set_recording(true);
  ASSERT_TRUE(timeline_.End(*side_, "h.1").ok());
  EXPECT_NE(timeline_.Take().status().ToString().find("'h.1' ends, but nothing has begun"),
            std::string::npos);
  ASSERT_TRUE(timeline_.Begin(*side_, "h.2").ok());
  EXPECT_NE(timeline_.Take().status().ToString().find("'h.2' has no end"), std::string::npos);
}

TEST_F(TimelineTest, SamplesMemoryWhereTheComputeStreamIs) {
  timeline_.set_recording(true);
  Stream& compute = device_->compute_stream();
  ASSERT_TRUE(timeline_.Begin(compute, "work").ok());
  const auto buffer = *device_->allocator().Allocate(1000, MemoryCategory::kGradients);
  ASSERT_TRUE(timeline_.Begin(*side_, "gather").ok());
  ASSERT_TRUE(timeline_.End(*side_, "gather", 77).ok());
  ASSERT_TRUE(timeline_.End(compute, "work").ok());
  std::vector<Timeline::MemorySample> memory;
  const absl::StatusOr<std::vector<Timeline::Span>> spans = timeline_.Take(&memory);
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(memory.size(), 2u);
  constexpr auto kGradients = static_cast<size_t>(MemoryCategory::kGradients);
  EXPECT_EQ(memory[1].bytes[kGradients] - memory[0].bytes[kGradients], 1000);
  for (const Timeline::Span& span : *spans) {
    EXPECT_EQ(span.bytes, span.label == "gather" ? 77 : -1) << span.label;
  }
}

TEST_F(TimelineTest, ChromeTraceHoldsEverySpanAndSample) {
  const std::vector<Timeline::Span> spans = {{"compute", "h.0 \"forward\"", 2.0, 2.5, -1},
                                             {"gather", "h.1", 2.25, 2.5, 1000000000}};
  std::vector<Timeline::MemorySample> memory(1);
  memory[0].seconds = 2.125;
  memory[0].bytes[0] = 5;
  const nlohmann::json trace =
      nlohmann::json::parse("[" + ChromeTraceEvents(spans, memory, /*rank=*/3, -2.0) + "]");
  size_t complete = 0;
  int counters = 0;
  for (const nlohmann::json& event : trace) {
    EXPECT_EQ(event["pid"], 3);
    if (event["ph"] == "C") {
      ++counters;
      EXPECT_EQ(event["ts"], 0.125 * 1e6);
      EXPECT_EQ(event["args"]["parameters"], 5);
      EXPECT_EQ(event["args"].size(), static_cast<size_t>(kMemoryCategoryCount));
    }
    if (event["ph"] != "X") continue;
    const Timeline::Span& span = spans[complete++];
    EXPECT_EQ(event["name"], span.label);
    EXPECT_EQ(event["ts"], (span.begin - 2.0) * 1e6);
    EXPECT_EQ(event["dur"], (span.end - span.begin) * 1e6);
    EXPECT_EQ(event.contains("args"), span.bytes >= 0);
    if (span.bytes < 0) continue;
    EXPECT_EQ(event["args"]["bytes"], span.bytes);
    EXPECT_EQ(event["args"]["GB/s"], 4.0);
  }
  EXPECT_EQ(complete, 2u);
  EXPECT_EQ(counters, 1);
}

// Streams with the same name, such as a teacher's and its student's, may overlap.
TEST_F(TimelineTest, ChromeTraceGivesOverlappingSlicesAnotherThread) {
  const std::vector<Timeline::Span> spans = {
      {"gather", "a", 1, 4, -1}, {"gather", "inside a", 1, 2, -1},   {"gather", "b", 3, 6, -1},
      {"gather", "c", 4, 5, -1}, {"gather", "inside c", 4.5, 5, -1}, {"gather", "d", 4.75, 7, -1}};
  const nlohmann::json trace =
      nlohmann::json::parse("[" + ChromeTraceEvents(spans, {}, /*rank=*/0, 0) + "]");
  std::map<int, std::string> names;
  std::map<std::string, std::string> threads;  // by slice
  for (const nlohmann::json& event : trace) {
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X") threads[event["name"]] = names.at(event["tid"]);
  }
  const std::map<std::string, std::string> expected = {
      {"a", "gather"}, {"inside a", "gather"}, {"b", "gather 2"},
      {"c", "gather"}, {"inside c", "gather"}, {"d", "gather 3"}};
  EXPECT_EQ(threads, expected);
}

}  // namespace
}  // namespace zeroth
