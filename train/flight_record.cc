// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flight_record.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/ranks_text.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = size_t{64} << 20;

Json Record(const Communicator& world, absl::Span<Communicator* const> communicators,
            const absl::Status& error) {
  const absl::Time now = absl::Now();
  Json groups = Json::array();
  for (const Communicator* group : communicators) {
    int64_t calls = 0;
    for (const CommStats::Counter& counter : group->stats().counters()) calls += counter.calls;
    Json latest = Json::array();
    for (const CommStats::Entry& entry : group->stats().Latest()) {
      latest.push_back({{"operation", CollectiveOpName(entry.op)},
                        {"label", entry.label},
                        {"bytes", entry.bytes},
                        {"order", entry.sequence},
                        {"seconds_ago", absl::ToDoubleSeconds(now - entry.time)}});
    }
    groups.push_back({{"name", group->name()}, {"calls", calls}, {"latest", latest}});
  }
  return {{"rank", world.rank()},
          {"time", absl::FormatTime(now)},
          {"error", error.ToString()},
          {"communicators", groups}};
}

std::string PathOf(const std::string& directory, int rank) {
  return absl::StrCat(directory, "/rank-", rank, ".json");
}

// Reads the records that exist and are complete.
std::vector<Json> ReadRecords(const std::string& directory, int world_size) {
  std::vector<Json> records;
  for (int rank = 0; rank < world_size; ++rank) {
    const absl::StatusOr<std::string> text = ReadFile(PathOf(directory, rank), kMostBytes);
    if (!text.ok()) continue;
    Json record = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  return records;
}

std::string LatestCall(const Json& group) {
  const Json& latest = group["latest"];
  if (latest.empty()) return "none";
  const Json& call = latest.back();
  return absl::StrFormat("%s '%s', issued %.1f s before the record",
                         call["operation"].get<std::string>(), call["label"].get<std::string>(),
                         call["seconds_ago"].get<double>());
}

// The records of one group's ranks, by the number of calls that they have issued.
using ByCalls = std::map<int64_t, std::vector<const Json*>>;

// Writes a line for each number of calls, the largest first.
std::string Describe(size_t index, const ByCalls& by_calls) {
  std::string text;
  std::vector<int> ahead;
  std::string awaited;
  for (auto at = by_calls.rbegin(); at != by_calls.rend(); ++at) {
    std::vector<int> ranks;
    for (const Json* record : at->second) ranks.push_back((*record)["rank"].get<int>());
    const Json& group = (*at->second.front())["communicators"][index];
    if (text.empty())
      text = absl::StrCat("communicator ", index, ", ", group["name"].get<std::string>(), ":\n");
    const std::string last = LatestCall(group);
    absl::StrAppend(&text, "  ", RanksText(ranks), ": ", at->first, " calls, the last ", last,
                    "\n");
    if (!ahead.empty()) {
      absl::StrAppend(&text, "  so ", RanksText(ahead), ahead.size() == 1 ? " waits" : " wait",
                      " for ", RanksText(ranks), ", at the latest in ", awaited, "\n");
    }
    ahead.insert(ahead.end(), ranks.begin(), ranks.end());
    awaited = last;
  }
  return text;
}

}  // namespace

std::string WaitingRanksText(const std::vector<Json>& records, int world_size) {
  std::string text = "Why ranks ended:\n";
  std::vector<int> silent;
  size_t groups = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto record = std::find_if(records.begin(), records.end(),
                                     [rank](const Json& each) { return each["rank"] == rank; });
    if (record == records.end()) {
      silent.push_back(rank);
      continue;
    }
    groups = std::max(groups, (*record)["communicators"].size());
    absl::StrAppend(&text, "  rank ", rank, ": ", (*record)["error"].get<std::string>(), "\n");
  }
  if (!silent.empty()) {
    absl::StrAppend(&text, "No record of ", RanksText(silent),
                    ": it hangs, was killed, or failed by itself before others waited for it.\n");
  }
  absl::StrAppend(&text, "Calls that ranks have issued, where they differ:\n");
  bool differ = false;
  for (size_t i = 0; i < groups; ++i) {
    // The ranks' i-th groups. Those with the same name are one group.
    std::map<std::string, ByCalls> by_name;
    for (const Json& record : records) {
      if (record["communicators"].size() <= i) continue;
      const Json& group = record["communicators"][i];
      by_name[group["name"].get<std::string>()][group["calls"].get<int64_t>()].push_back(&record);
    }
    for (const auto& [name, by_calls] : by_name) {
      if (by_calls.size() < 2) continue;
      differ = true;
      absl::StrAppend(&text, Describe(i, by_calls));
    }
  }
  if (!differ) absl::StrAppend(&text, "  none, among the ranks with a record\n");
  return text;
}

absl::Status SetFlightRecordAside(const std::string& directory) {
  const std::string flight = absl::StrCat(directory, "/", kFlightDirectory);
  std::error_code unknown;
  if (!std::filesystem::is_directory(flight, unknown)) return absl::OkStatus();
  const std::string earlier = absl::StrCat(directory, "/", kEarlierFlightDirectory);
  ZEROTH_RETURN_IF_ERROR(RemoveAll(earlier));
  return RenamePath(flight, earlier);
}

absl::Status WriteFlightRecord(const std::string& directory, const Communicator& world,
                               absl::Span<Communicator* const> communicators,
                               const absl::Status& error, absl::Duration patience) {
  const std::string flight = absl::StrCat(directory, "/", kFlightDirectory);
  std::error_code made;
  std::filesystem::create_directories(flight, made);
  if (made) return ErrnoStatus(made.value(), absl::StrCat("make ", flight));
  ZEROTH_RETURN_IF_ERROR(ReplaceFile(PathOf(flight, world.rank()),
                                     Record(world, communicators, error).dump(1) + "\n"));
  const absl::Time until = absl::Now() + patience;
  const auto size = static_cast<size_t>(world.size());
  size_t merged = 0;
  // The last rank to write sees all records; the others read again until they do.
  for (;;) {
    const std::vector<Json> records = ReadRecords(flight, world.size());
    if (records.size() > merged) {
      merged = records.size();
      ZEROTH_RETURN_IF_ERROR(ReplaceFile(absl::StrCat(flight, "/", kWhoWaitedFile),
                                         WaitingRanksText(records, world.size())));
    }
    if (merged == size || absl::Now() > until) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(20));
  }
}

}  // namespace zeroth
