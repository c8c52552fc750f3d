// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status Timeline::Begin(Stream& stream, absl::string_view label) {
  return Add(stream, label, /*begins=*/true);
}

absl::Status Timeline::End(Stream& stream, absl::string_view label) {
  return Add(stream, label, /*begins=*/false);
}

absl::Status Timeline::Add(Stream& stream, absl::string_view label, bool begins) {
  if (!recording_) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> event, stream.RecordTime());
  marks_.push_back({std::string(stream.name()), std::string(label), begins, std::move(event)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Timeline::Span>> Timeline::Take() {
  const std::vector<Mark> marks = std::exchange(marks_, {});
  std::vector<Span> spans;
  std::map<std::string, std::vector<size_t>> open;  // by stream: indices of spans without an end
  for (const Mark& mark : marks) {
    ZEROTH_ASSIGN_OR_RETURN(const double seconds, mark.event->Seconds());
    std::vector<size_t>& inside = open[mark.stream];
    if (mark.begins) {
      inside.push_back(spans.size());
      spans.push_back({mark.stream, mark.label, seconds, seconds});
      continue;
    }
    if (inside.empty() || spans[inside.back()].label != mark.label) {
      return absl::FailedPreconditionError(absl::StrCat(
          "timeline: on stream '", mark.stream, "', '", mark.label, "' ends, but ",
          inside.empty() ? "nothing has begun"
                         : absl::StrCat("'", spans[inside.back()].label, "' is what began last")));
    }
    spans[inside.back()].end = seconds;
    inside.pop_back();
  }
  for (const auto& [stream, inside] : open) {
    if (inside.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat("timeline: on stream '", stream, "', '",
                                                      spans[inside.back()].label, "' has no end"));
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

std::string ChromeTrace(absl::Span<const Timeline::Span> spans, absl::string_view process) {
  constexpr double kMicroseconds = 1e6;
  nlohmann::json events = nlohmann::json::array();
  std::map<std::string, int> threads;
  double start = 0;
  for (const Timeline::Span& span : spans) {
    start = events.empty() ? span.begin : std::min(start, span.begin);
    const auto [thread, fresh] = threads.emplace(span.stream, static_cast<int>(threads.size()));
    if (fresh) {
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", 0},
                        {"tid", thread->second},
                        {"args", {{"name", span.stream}}}});
    }
    events.push_back({{"ph", "X"},
                      {"name", span.label},
                      {"pid", 0},
                      {"tid", thread->second},
                      {"ts", (span.begin - start) * kMicroseconds},
                      {"dur", (span.end - span.begin) * kMicroseconds}});
  }
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", 0},
                    {"args", {{"name", std::string(process)}}}});
  return nlohmann::json({{"traceEvents", events}}).dump();
}

}  // namespace zeroth
