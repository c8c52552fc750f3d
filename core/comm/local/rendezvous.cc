// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "zeroth/core/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// Longer waits than this are no waits at all to a person, and would overflow the clock.
constexpr absl::Duration kForever = absl::Hours(24 * 365);

// About as long as it takes to put a thread to sleep and wake it up again: polling longer gains
// nothing.
constexpr int kSpinRounds = 400;

void PauseCpu() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits for `done`; false if that takes longer than `timeout`.
template <class Predicate>
bool WaitFor(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             absl::Duration timeout, Predicate done) {
  if (timeout >= kForever) {
    changed.wait(lock, done);
    return true;
  }
  const auto deadline = Clock::now() + absl::ToChronoNanoseconds(timeout);
  while (!done()) {
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    // In slices, because somebody may set the system clock, on which the wait itself is measured.
    const auto slice = std::min<Clock::duration>(left, std::chrono::seconds(1));
    changed.wait_until(lock, std::chrono::system_clock::now() + slice);
  }
  return true;
}

}  // namespace

Rendezvous::Rendezvous(std::shared_ptr<LocalWorld> world, std::vector<int> world_ranks,
                       std::string name)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      name_(std::move(name)),
      members_(world_ranks_.size()),
      buffers_(world_ranks_.size()) {
  world_->RegisterLocked(this);
}

Rendezvous::~Rendezvous() { world_->Unregister(this); }

absl::StatusOr<uint64_t> Rendezvous::Issue(int rank) {
  std::lock_guard<std::mutex> lock(world_->mutex());
  if (absl::Status broken = world_->StatusLocked(); !broken.ok()) return broken;
  return members_[static_cast<size_t>(rank)].issued++;
}

absl::Status Rendezvous::Arrive(int rank, const CollectiveCall& call, const LocalBuffers& buffers,
                                const std::function<void()>& when_complete) {
  std::unique_lock<std::mutex> lock(world_->mutex());
  if (absl::Status broken = world_->StatusLocked(); !broken.ok()) return broken;
  if (absl::Status match = CheckMatchLocked(rank, call); !match.ok()) {
    world_->BreakLocked(match, world_ranks_[static_cast<size_t>(rank)]);
    return match;
  }
  Member& member = members_[static_cast<size_t>(rank)];
  member.last_call = call;
  buffers_[static_cast<size_t>(rank)] = buffers;
  const uint64_t target = ++member.arrived;
  if (arrivals_.present == 0) first_to_arrive_ = rank;
  if (JoinLocked(arrivals_)) {
    if (when_complete != nullptr) when_complete();
    arrivals_.completed.store(target, std::memory_order_release);
    changed_.notify_all();
    return absl::OkStatus();
  }
  if (const int departed = FindDepartedLocked(arrivals_.completed); departed >= 0) {
    world_->BreakByDepartureLocked(DescribeDepartureLocked(departed, rank),
                                   world_ranks_[static_cast<size_t>(departed)]);
    return world_->StatusLocked();
  }

  lock.unlock();
  SpinUntil(arrivals_, target);
  lock.lock();
  const auto complete = [&] { return arrivals_.completed >= target; };
  const bool in_time = WaitFor(changed_, lock, world_->timeout(),
                               [&] { return complete() || world_->IsBrokenLocked(); });
  if (complete()) return absl::OkStatus();
  if (!in_time) world_->BreakLocked(TimeoutLocked(call), world_ranks_[static_cast<size_t>(rank)]);
  return world_->StatusLocked();
}

void Rendezvous::Finish(int rank, bool wait_for_all) {
  std::unique_lock<std::mutex> lock(world_->mutex());
  const uint64_t target = members_[static_cast<size_t>(rank)].arrived;
  if (JoinLocked(finishes_)) {
    finishes_.completed.store(target, std::memory_order_release);
    changed_.notify_all();
    return;
  }
  if (!wait_for_all) return;
  lock.unlock();
  SpinUntil(finishes_, target);
  if (finishes_.completed.load(std::memory_order_acquire) >= target) return;
  lock.lock();
  changed_.wait(lock, [&] { return finishes_.completed >= target; });
}

void Rendezvous::Leave(int rank) {
  std::lock_guard<std::mutex> lock(world_->mutex());
  members_[static_cast<size_t>(rank)].left = true;
  const int world_rank = world_ranks_[static_cast<size_t>(rank)];
  const std::string wait = DescribeWaitForLocked(world_rank);
  if (!wait.empty()) world_->BreakByDepartureLocked(wait, world_rank);
}

bool Rendezvous::JoinLocked(Meeting& meeting) {
  if (++meeting.present < size()) return false;
  meeting.present = 0;
  return true;
}

void Rendezvous::SpinUntil(const Meeting& meeting, uint64_t target) const {
  if (!world_->may_spin()) return;
  for (int round = 0; round < kSpinRounds; ++round) {
    if (meeting.completed.load(std::memory_order_acquire) >= target) return;
    PauseCpu();
  }
}

void Rendezvous::WakeLocked() { changed_.notify_all(); }

std::string Rendezvous::RankName(int rank) const {
  return absl::StrCat("rank ", world_ranks_[static_cast<size_t>(rank)]);
}

absl::Status Rendezvous::CheckMatchLocked(int rank, const CollectiveCall& call) const {
  if (arrivals_.present == 0) return absl::OkStatus();
  const CollectiveCall& other = members_[static_cast<size_t>(first_to_arrive_)].last_call;
  if (call == other) return absl::OkStatus();
  std::string mine = absl::StrCat(RankName(rank), " called ", call.ToString());
  std::string theirs = absl::StrCat(RankName(first_to_arrive_), " called ", other.ToString());
  if (first_to_arrive_ < rank) std::swap(mine, theirs);
  return absl::FailedPreconditionError(
      absl::StrCat("collectives do not match on ", name_, ": ", mine, ", ", theirs,
                   "; all ranks must make the same calls in the same order"));
}

int Rendezvous::FindDepartedLocked(uint64_t completed) const {
  for (int rank = 0; rank < size(); ++rank) {
    const Member& member = members_[static_cast<size_t>(rank)];
    const bool departed =
        member.left || world_->HasReturnedLocked(world_ranks_[static_cast<size_t>(rank)]);
    if (departed && member.issued <= completed) return rank;
  }
  return -1;
}

std::string Rendezvous::DescribeDepartureLocked(int departed, int waiting) const {
  const Member& gone = members_[static_cast<size_t>(departed)];
  const bool returned = world_->HasReturnedLocked(world_ranks_[static_cast<size_t>(departed)]);
  return absl::StrCat(
      RankName(departed), returned ? " has returned" : " has destroyed its communicator",
      gone.arrived == 0
          ? " without a call"
          : absl::StrCat(" after its last operation, ", gone.last_call.ToString(), ","),
      " on ", name_, ", while ", RankName(waiting), " waits for it in ",
      members_[static_cast<size_t>(waiting)].last_call.ToString());
}

std::string Rendezvous::DescribeWaitForLocked(int world_rank) const {
  const auto found = std::find(world_ranks_.begin(), world_ranks_.end(), world_rank);
  if (found == world_ranks_.end()) return "";
  const int departed = static_cast<int>(found - world_ranks_.begin());
  if (members_[static_cast<size_t>(departed)].issued > arrivals_.completed) return "";
  for (int rank = 0; rank < size(); ++rank) {
    if (IsWaiting(members_[static_cast<size_t>(rank)]))
      return DescribeDepartureLocked(departed, rank);
  }
  return "";
}

std::string Rendezvous::DescribeWaitOfLocked(int world_rank) const {
  const auto found = std::find(world_ranks_.begin(), world_ranks_.end(), world_rank);
  if (found == world_ranks_.end()) return "";
  const Member& member = members_[static_cast<size_t>(found - world_ranks_.begin())];
  if (!IsWaiting(member)) return "";
  return absl::StrCat(member.last_call.ToString(), " on ", name_);
}

std::string Rendezvous::DescribeMemberLocked(int rank) const {
  const Member& member = members_[static_cast<size_t>(rank)];
  if (IsWaiting(member)) {
    return absl::StrCat(RankName(rank), ": waiting in ", member.last_call.ToString());
  }
  std::string text = absl::StrCat(
      RankName(rank), ": ",
      member.arrived == 0 ? "no call yet"
                          : absl::StrCat("last completed ", member.last_call.ToString()));
  if (member.issued > member.arrived) {
    absl::StrAppend(&text, ", has enqueued ", member.issued - member.arrived,
                    " more that its stream has not reached");
  }
  const std::string elsewhere =
      world_->DescribeWaitElsewhereLocked(world_ranks_[static_cast<size_t>(rank)], this);
  if (!elsewhere.empty()) absl::StrAppend(&text, ", waiting in ", elsewhere);
  return text;
}

absl::Status Rendezvous::TimeoutLocked(const CollectiveCall& call) const {
  std::vector<std::string> missing;
  std::vector<std::string> states;
  for (int rank = 0; rank < size(); ++rank) {
    if (!IsWaiting(members_[static_cast<size_t>(rank)])) missing.push_back(RankName(rank));
    states.push_back(DescribeMemberLocked(rank));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "timeout after ", absl::FormatDuration(world_->timeout()), " in ", call.ToString(), " on ",
      name_, ": missing ", absl::StrJoin(missing, ", "), " (", absl::StrJoin(states, "; "), ")"));
}

}  // namespace zeroth
