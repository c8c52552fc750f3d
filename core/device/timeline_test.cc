// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/timeline.h"

#include <memory>
#include <string>
#include <vector>

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

TEST_F(TimelineTest, WhatDoesNotMatchIsNamed) {
  timeline_.set_recording(true);
  ASSERT_TRUE(timeline_.End(*side_, "h.1").ok());
  EXPECT_NE(timeline_.Take().status().ToString().find("'h.1' ends, but nothing has begun"),
            std::string::npos);
  ASSERT_TRUE(timeline_.Begin(*side_, "h.2").ok());
  EXPECT_NE(timeline_.Take().status().ToString().find("'h.2' has no end"), std::string::npos);
}

TEST_F(TimelineTest, ChromeTraceHoldsEverySpan) {
  const std::vector<Timeline::Span> spans = {{"compute", "h.0 \"forward\"", 2.0, 2.5},
                                             {"gather", "h.1", 2.25, 2.375}};
  const nlohmann::json trace = nlohmann::json::parse(ChromeTrace(spans, "rank 3"));
  int complete = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const Timeline::Span& span = spans[static_cast<size_t>(complete++)];
    EXPECT_EQ(event["name"], span.label);
    EXPECT_EQ(event["ts"], (span.begin - 2.0) * 1e6);
    EXPECT_EQ(event["dur"], (span.end - span.begin) * 1e6);
  }
  EXPECT_EQ(complete, 2);
}

}  // namespace
}  // namespace zeroth
