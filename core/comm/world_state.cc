// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/world_state.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/call_ledger.h"
#include "zeroth/core/comm/ranks_text.h"

namespace zeroth {
namespace {

// Prefixes the error with the failed rank: the one that the message already names ("rank 3: ", from
// AgreeOnStatus), whichever rank returns it first, or else `world_rank`.
absl::Status FailureOf(const absl::Status& status, int world_rank) {
  const absl::string_view message = status.message();
  const std::vector<absl::string_view> parts = absl::StrSplit(message, ": ");
  size_t begin = 0;
  for (const absl::string_view part : parts) {
    absl::string_view named = part;
    int rank = 0;
    if (absl::ConsumePrefix(&named, "rank ") && absl::SimpleAtoi(named, &rank) &&
        begin + part.size() + 2 <= message.size()) {
      return absl::Status(status.code(), absl::StrCat(part, " failed: ", message.substr(0, begin),
                                                      message.substr(begin + part.size() + 2)));
    }
    begin += part.size() + 2;
  }
  return Annotate(status, absl::StrCat("rank ", world_rank, " failed"));
}

}  // namespace

WorldState::WorldState(int size, absl::Duration timeout)
    : size_(size), timeout_(timeout), returned_(static_cast<size_t>(size), false) {}

absl::Status WorldState::StatusLocked() const {
  return broken_.has_value() ? broken_->ToStatus() : absl::OkStatus();
}

absl::Status WorldState::status() {
  std::lock_guard<std::mutex> lock(mutex_);
  return StatusLocked();
}

void WorldState::BreakLocked(const absl::Status& reason, int world_rank, bool symptom) {
  ZEROTH_CHECK(!reason.ok());
  if (broken_.has_value()) return;
  broken_.emplace(reason, world_rank, symptom);
  for (CallLedger* ledger : ledgers_) ledger->changed().notify_all();
}

void WorldState::Break(const absl::Status& reason, int world_rank, bool symptom) {
  std::lock_guard<std::mutex> lock(mutex_);
  BreakLocked(reason, world_rank, symptom);
}

void WorldState::RankReturned(int world_rank, const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (HasReturnedLocked(world_rank)) return;
  returned_[static_cast<size_t>(world_rank)] = true;
  ++returned_count_;
  if (!status.ok()) {
    returned_errors_.emplace_back(status, world_rank);
    BreakLocked(FailureOf(status, world_rank), world_rank);
    return;
  }
  for (CallLedger* ledger : ledgers_) {
    const std::string wait = ledger->DepartLocked(world_rank);
    if (!wait.empty()) BreakLocked(absl::FailedPreconditionError(wait), world_rank);
  }
}

absl::Status WorldState::RootCause() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (returned_errors_.empty()) return absl::OkStatus();
  const auto own = [](const Failure& failure) {
    return FailureOf(failure.ToStatus(), failure.world_rank);
  };
  if (broken_->is_symptom) {
    for (const Failure& failure : returned_errors_) {
      if (failure.world_rank == broken_->world_rank &&
          !absl::StrContains(failure.message, broken_->message)) {
        return own(failure);
      }
    }
  }
  const Failure& first = returned_errors_.front();
  const absl::Status first_own = own(first);
  const bool repeats = first_own.message() == broken_->message ||
                       absl::StrContains(first.message, broken_->message) ||
                       (first.world_rank == broken_->world_rank &&
                        absl::StrContains(broken_->message, first.message));
  if (repeats) return broken_->ToStatus();
  // The rank met the broken world and returned its own error. Both are needed to understand.
  return absl::Status(
      first.code,
      absl::StrCat(first_own.message(), " (after communication broke: ", broken_->message, ")"));
}

void WorldState::Unregister(CallLedger* ledger) {
  std::lock_guard<std::mutex> lock(mutex_);
  ledgers_.erase(ledger);
}

std::string WorldState::DescribeWaitElsewhereLocked(int world_rank,
                                                    const CallLedger* except) const {
  for (const CallLedger* ledger : ledgers_) {
    if (ledger == except) continue;
    std::string wait = ledger->DescribeWaitOfLocked(world_rank);
    if (!wait.empty()) return wait;
  }
  return "";
}

absl::Status DroppedCall(int world_rank, const std::string& call, const absl::Status& cause) {
  const std::string message =
      absl::StrCat("rank ", world_rank, " failed: its stream stopped before ", call);
  return cause.ok() ? absl::AbortedError(message) : Annotate(cause, message);
}

std::chrono::nanoseconds OnClock(absl::Duration timeout) {
  return absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
}

std::vector<std::vector<int>> SplitGroups(absl::Span<const SplitRequest> requests) {
  std::map<int, std::vector<int>> ranks_of_color;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    if (requests[rank].color < 0) continue;
    ranks_of_color[requests[rank].color].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> groups;
  for (auto& [color, ranks] : ranks_of_color) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return requests[static_cast<size_t>(a)].key < requests[static_cast<size_t>(b)].key;
    });
    groups.push_back(std::move(ranks));
  }
  return groups;
}

std::string GroupName(absl::string_view back_end, absl::Span<const int> world_ranks) {
  return absl::StrCat(back_end, " world ranks [", RankRanges(world_ranks), "]");
}

}  // namespace zeroth
