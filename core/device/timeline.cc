// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status Timeline::Begin(Stream& stream, absl::string_view label) {
  return Add(stream, label, /*begins=*/true, -1);
}

absl::Status Timeline::End(Stream& stream, absl::string_view label, int64_t bytes) {
  return Add(stream, label, /*begins=*/false, bytes);
}

absl::Status Timeline::Add(Stream& stream, absl::string_view label, bool begins, int64_t bytes) {
  if (!recording_) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> event, stream.RecordTime());
  std::unique_ptr<MemorySample> memory;
  if (&stream == &stream.device().compute_stream()) {
    memory = std::make_unique<MemorySample>();
    const MemoryStats stats = stream.device().allocator().stats();
    for (size_t i = 0; i < memory->bytes.size(); ++i) {
      memory->bytes[i] = stats.categories[i].current_bytes;
    }
  }
  marks_.push_back({std::string(stream.name()), std::string(label), begins, bytes, std::move(event),
                    std::move(memory)});
  return absl::OkStatus();
}

void Timeline::set_counts_waits(bool on) {
  counts_waits_ = on;
  waits_.clear();
}

absl::Status Timeline::AddWait(Stream& stream) {
  if (!counts_waits_ || &stream != &stream.device().compute_stream()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> event, stream.RecordTime());
  waits_.push_back(std::move(event));
  return absl::OkStatus();
}

absl::StatusOr<double> Timeline::Waited() const {
  double seconds = 0;
  double sign = -1;
  for (const std::shared_ptr<Event>& event : waits_) {
    ZEROTH_ASSIGN_OR_RETURN(const double at, event->Seconds());
    seconds += sign * at;
    sign = -sign;
  }
  return seconds;
}

absl::StatusOr<std::vector<Timeline::Span>> Timeline::Take(std::vector<MemorySample>* memory) {
  const std::vector<Mark> marks = std::exchange(marks_, {});
  std::vector<Span> spans;
  std::map<std::string, std::vector<size_t>> open;  // by stream: indices of spans without an end
  for (const Mark& mark : marks) {
    ZEROTH_ASSIGN_OR_RETURN(const double seconds, mark.event->Seconds());
    if (memory != nullptr && mark.memory != nullptr) {
      mark.memory->seconds = seconds;
      memory->push_back(*mark.memory);
    }
    std::vector<size_t>& inside = open[mark.stream];
    if (mark.begins) {
      inside.push_back(spans.size());
      spans.push_back({mark.stream, mark.label, seconds, seconds, -1});
      continue;
    }
    if (inside.empty() || spans[inside.back()].label != mark.label) {
      return FailedPrecondition(
          "timeline: on stream '", mark.stream, "', '", mark.label, "' ends, but ",
          inside.empty() ? "nothing has begun"
                         : absl::StrCat("'", spans[inside.back()].label, "' is what began last"));
    }
    spans[inside.back()].end = seconds;
    spans[inside.back()].bytes = mark.bytes;
    inside.pop_back();
  }
  for (const auto& [stream, inside] : open) {
    if (inside.empty()) continue;
    return FailedPrecondition("timeline: on stream '", stream, "', '", spans[inside.back()].label,
                              "' has no end");
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

namespace {

// A thread of a trace. The slices of one must nest: viewers drop others.
struct TraceThread {
  std::string name;
  std::vector<double> ends = {};  // of the slices that are open, the innermost last

  bool Takes(const Timeline::Span& span) {
    while (!ends.empty() && ends.back() <= span.begin) ends.pop_back();
    return ends.empty() || span.end <= ends.back();
  }
};

}  // namespace

std::string ChromeTraceEvents(absl::Span<const Timeline::Span> spans,
                              absl::Span<const Timeline::MemorySample> memory, int rank,
                              double offset) {
  const auto microseconds = [offset](double seconds) { return (seconds + offset) * 1e6; };
  std::string events;
  const auto add = [&](nlohmann::json event) {
    event["pid"] = rank;
    absl::StrAppend(&events, events.empty() ? "" : ",\n", event.dump());
  };
  add({{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", absl::StrCat("rank ", rank)}}}});
  std::vector<TraceThread> threads;
  // Returns the first thread of the span's stream that has room for it.
  const auto thread_of = [&](const Timeline::Span& span) -> size_t {
    std::string name = span.stream;
    int count = 1;
    for (size_t i = 0; i < threads.size(); ++i) {
      if (threads[i].name != name) continue;
      if (threads[i].Takes(span)) return i;
      name = absl::StrCat(span.stream, " ", ++count);
    }
    add({{"ph", "M"},
         {"name", "thread_name"},
         {"tid", threads.size()},
         {"args", {{"name", name}}}});
    threads.push_back({name});
    return threads.size() - 1;
  };
  for (const Timeline::Span& span : spans) {
    const size_t thread = thread_of(span);
    threads[thread].ends.push_back(span.end);
    const double seconds = span.end - span.begin;
    nlohmann::json event = {{"ph", "X"},
                            {"name", span.label},
                            {"tid", thread},
                            {"ts", microseconds(span.begin)},
                            {"dur", seconds * 1e6}};
    if (span.bytes >= 0) {
      event["args"] = {{"bytes", span.bytes}};
      if (seconds > 0) event["args"]["GB/s"] = static_cast<double>(span.bytes) / seconds / 1e9;
    }
    // A colour of chrome://tracing.
    if (absl::StartsWith(span.label, kWaitFor)) event["cname"] = "terrible";
    add(std::move(event));
  }
  for (const Timeline::MemorySample& sample : memory) {
    nlohmann::json bytes;
    for (int i = 0; i < kMemoryCategoryCount; ++i) {
      bytes[std::string(MemoryCategoryName(static_cast<MemoryCategory>(i)))] =
          sample.bytes[static_cast<size_t>(i)];
    }
    add({{"ph", "C"}, {"name", "memory"}, {"ts", microseconds(sample.seconds)}, {"args", bytes}});
  }
  return events;
}

}  // namespace zeroth
