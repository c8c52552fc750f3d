// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/step_trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"

namespace zeroth {
namespace {

constexpr char kLabel[] = "trace";
constexpr char kStep[] = "step";
// A thread may notice late that a barrier has opened; the median of several is not affected.
constexpr int kBarriers = 9;
// Number of causes that the summary names.
constexpr size_t kMostCauses = 4;

using Seconds = std::map<std::string, double>;
using Intervals = std::vector<std::pair<double, double>>;

// The measurements of one rank.
struct ExposedCommunication {
  double steps = 0;    // seconds of all steps
  Seconds by_cause;    // waits of the compute stream, by cause
  Seconds traffic;     // transfers of the other streams, by stream
  Seconds overlapped;  // of these, while the compute stream did not wait
};

// Returns the seconds of [begin, end) outside all of `waits`, which are in order.
double Outside(const Intervals& waits, double begin, double end) {
  double seconds = end - begin;
  auto wait = std::lower_bound(waits.begin(), waits.end(), std::pair(begin, begin));
  if (wait != waits.begin()) --wait;
  for (; wait != waits.end() && wait->first < end; ++wait) {
    seconds -= std::max(0.0, std::min(wait->second, end) - std::max(wait->first, begin));
  }
  return seconds;
}

ExposedCommunication MeasureExposed(absl::Span<const Timeline::Span> spans,
                                    absl::string_view compute_stream) {
  ExposedCommunication exposed;
  Intervals all_waits;
  for (const Timeline::Span& span : spans) {
    if (span.stream != compute_stream) continue;
    const double seconds = span.end - span.begin;
    if (absl::StartsWith(span.label, absl::StrCat(kStep, " "))) exposed.steps += seconds;
    const bool waits = absl::StartsWith(span.label, kWaitFor);
    if (!waits && span.bytes < 0) continue;
    exposed.by_cause[waits ? span.label.substr(sizeof(kWaitFor)) : span.label] += seconds;
    all_waits.emplace_back(span.begin, span.end);
  }
  for (const Timeline::Span& span : spans) {
    if (span.stream == compute_stream || span.bytes < 0) continue;
    exposed.traffic[span.stream] += span.end - span.begin;
    exposed.overlapped[span.stream] += Outside(all_waits, span.begin, span.end);
  }
  return exposed;
}

std::string Percent(double part, double whole) {
  return absl::StrFormat("%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
}

std::string Summary(const ExposedCommunication& all) {
  double sum = 0;
  std::vector<std::pair<double, std::string>> causes;
  for (const auto& [cause, seconds] : all.by_cause) {
    sum += seconds;
    causes.emplace_back(seconds, cause);
  }
  std::sort(causes.rbegin(), causes.rend());
  if (causes.size() > kMostCauses) causes.resize(kMostCauses);
  std::string text =
      absl::StrCat("exposed communication ", Percent(sum, all.steps), " of the step");
  for (size_t i = 0; i < causes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? ": " : ", ", causes[i].second, " ",
                    Percent(causes[i].first, all.steps));
  }
  absl::string_view before = "; overlapped with computation: ";
  for (const auto& [stream, seconds] : all.traffic) {
    absl::StrAppend(&text, before, stream, " ", Percent(all.overlapped.at(stream), seconds));
    before = ", ";
  }
  return text;
}

}  // namespace

StepTrace::StepTrace(std::optional<StepRange> range, Communicator& world, Device& device)
    : range_(range), world_(world), device_(device) {
  world_.stats().set_timeline(&timeline_);
}

StepTrace::~StepTrace() { world_.stats().set_timeline(nullptr); }

absl::Status StepTrace::BeforeStep(int64_t step) {
  if (!range_.has_value() || step < range_->from || step > range_->to) return absl::OkStatus();
  Stream& compute = device_.compute_stream();
  while (opened_.size() < kBarriers) {
    ZEROTH_RETURN_IF_ERROR(world_.Barrier(compute, kLabel));
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> now, compute.RecordTime());
    ZEROTH_ASSIGN_OR_RETURN(const double seconds, now->Seconds());
    opened_.push_back(seconds);
  }
  ++steps_;
  timeline_.set_recording(true);
  return timeline_.Begin(compute, absl::StrCat(kStep, " ", step));
}

absl::Status StepTrace::AfterStep(int64_t step) {
  if (!timeline_.recording()) return absl::OkStatus();
  const absl::Status ended =
      timeline_.End(device_.compute_stream(), absl::StrCat(kStep, " ", step));
  timeline_.set_recording(false);
  return ended;
}

absl::StatusOr<double> StepTrace::ClockOffset() {
  ZEROTH_ASSIGN_OR_RETURN(
      const std::string text,
      BroadcastText(world_, device_, 0, nlohmann::json(opened_).dump(), kLabel));
  const auto first = nlohmann::json::parse(text).get<std::vector<double>>();
  std::vector<double> behind;
  for (size_t i = 0; i < opened_.size(); ++i) behind.push_back(first[i] - opened_[i]);
  std::nth_element(behind.begin(), behind.begin() + kBarriers / 2, behind.end());
  return behind[kBarriers / 2] - first.back();
}

bool StepTrace::IsComplete(int64_t step) const {
  return range_.has_value() && step >= range_->to && !written_;
}

absl::StatusOr<std::string> StepTrace::Write(const std::string& directory) {
  if (steps_ == 0 || std::exchange(written_, true)) return std::string();
  std::vector<Timeline::MemorySample> memory;
  const absl::StatusOr<std::vector<Timeline::Span>> spans = timeline_.Take(&memory);
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world_, device_, spans.status(), kLabel));
  ZEROTH_ASSIGN_OR_RETURN(const double offset, ClockOffset());
  const ExposedCommunication mine = MeasureExposed(*spans, device_.compute_stream().name());
  const std::string text =
      nlohmann::json({{"events", ChromeTraceEvents(*spans, memory, world_.rank(), offset)},
                      {"steps", mine.steps},
                      {"by_cause", mine.by_cause},
                      {"traffic", mine.traffic},
                      {"overlapped", mine.overlapped}})
          .dump();
  ExposedCommunication all;
  std::string events;
  for (int rank = 0; rank < world_.size(); ++rank) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string theirs,
                            BroadcastText(world_, device_, rank, text, kLabel));
    if (world_.rank() != 0) continue;
    const nlohmann::json json = nlohmann::json::parse(theirs);
    absl::StrAppend(&events, events.empty() ? "" : ",\n", json["events"].get<std::string>());
    all.steps += json["steps"].get<double>();
    const auto add = [&json](const char* key, Seconds& sums) {
      for (const auto& [name, seconds] : json[key].items()) sums[name] += seconds.get<double>();
    };
    add("by_cause", all.by_cause);
    add("traffic", all.traffic);
    add("overlapped", all.overlapped);
  }
  if (world_.rank() != 0) return std::string();
  const std::string path = absl::StrCat(directory, "/", kTraceFile);
  ZEROTH_RETURN_IF_ERROR_WITH(
      WriteFileDurably(path, absl::StrCat("{\"traceEvents\": [\n", events, "\n]}\n")), "--trace");
  return absl::StrCat("of ", steps_, steps_ == 1 ? " step in " : " steps in ", path, "; ",
                      Summary(all));
}

}  // namespace zeroth
