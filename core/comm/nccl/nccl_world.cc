// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_world.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/wire.h"

namespace zeroth::nccl {
namespace {

using Clock = std::chrono::steady_clock;

// What goes wrong shows this much later; a watch costs a few microseconds.
constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
// How long copies may go on in a broken world: gigabytes take a small part of this.
constexpr absl::Duration kCopyGrace = absl::Seconds(30);
constexpr auto kBuryPause = std::chrono::milliseconds(1);

}  // namespace

void Traffic::Add(const CollectiveCall& call, uint64_t number, std::shared_ptr<Event> begin,
                  std::shared_ptr<Event> end) {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  entries_.push_back({call, number, std::move(begin), std::move(end)});
}

void Traffic::Keep(std::shared_ptr<const void> memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!entries_.empty()) entries_.back().kept.push_back(std::move(memory));
}

void Traffic::ForgetDoneLocked() {
  while (!entries_.empty() && entries_.front().end->IsDone()) {
    entries_.pop_front();
    running_since_.reset();
  }
}

bool Traffic::IsIdle() {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  return entries_.empty();
}

std::optional<CollectiveCall> Traffic::FindStuck(const ProcessWorld& world,
                                                 absl::Duration timeout) {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  // While ranks are missing, the coordinator watches the time, and knows who they are.
  if (entries_.empty() || !entries_.front().begin->IsDone() ||
      world.Agreed(group_) < entries_.front().number) {
    return std::nullopt;
  }
  const Clock::time_point now = Clock::now();
  if (!running_since_.has_value()) running_since_ = now;
  if (absl::FromChrono(now - *running_since_) <= timeout) return std::nullopt;
  return entries_.front().call;
}

std::optional<CollectiveCall> Traffic::FindCopying() {
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDoneLocked();
  if (!by_copy_engine_ || entries_.empty() || !entries_.front().begin->IsDone()) {
    return std::nullopt;
  }
  return entries_.front().call;
}

void HandleSet::Add(const std::shared_ptr<Handle>& handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  handles_.erase(std::remove_if(handles_.begin(), handles_.end(),
                                [](const auto& weak) { return weak.expired(); }),
                 handles_.end());
  handles_.push_back(handle);
  if (aborted_) handle->Abort();
}

std::vector<std::shared_ptr<Handle>> HandleSet::Get() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Handle>> handles;
  for (const std::weak_ptr<Handle>& weak : handles_) {
    if (std::shared_ptr<Handle> handle = weak.lock(); handle != nullptr) {
      handles.push_back(std::move(handle));
    }
  }
  return handles;
}

void HandleSet::AbortAll() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
  }
  for (const std::shared_ptr<Handle>& handle : Get()) handle->Abort();
}

absl::StatusOr<CopyEnginePlan> AgreeOnCopyEngines(ProcessWorld& processes, const RankAbility& own) {
  const std::string all_key = "nccl abilities";
  const auto key = [](int rank) { return absl::StrCat("nccl ability of rank ", rank); };
  WireWriter all;
  if (processes.rank() == 0) {
    for (int rank = 0; rank < processes.size(); ++rank) {
      std::string bytes = own.Serialize();
      if (rank > 0) {
        ZEROTH_ASSIGN_OR_RETURN(bytes, processes.Get(key(rank)));
      }
      all.String(bytes);
    }
    ZEROTH_RETURN_IF_ERROR(processes.Put(all_key, all.bytes()));
  } else {
    ZEROTH_RETURN_IF_ERROR(processes.Put(key(processes.rank()), own.Serialize()));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::string bytes, processes.Get(all_key));
  WireReader reader(bytes);
  std::vector<RankAbility> ranks;
  for (int rank = 0; rank < processes.size(); ++rank) {
    ZEROTH_ASSIGN_OR_RETURN(RankAbility ability, RankAbility::Parse(reader.String()));
    ranks.push_back(std::move(ability));
  }
  return CopyEnginePlan::Make(std::move(ranks));
}

World::World(std::shared_ptr<ProcessWorld> processes, int device, bool library_reduces,
             CopyEnginePlan copy_engines)
    : processes_(std::move(processes)),
      device_(device),
      library_reduces_(library_reduces),
      copy_engines_(std::move(copy_engines)),
      memory_(std::make_shared<NcclMemory>(device)),
      handles_(std::make_shared<HandleSet>()) {
  processes_->OnBreak([handles = handles_] { handles->AbortAll(); });
  watcher_ = std::thread([this] { Watch(); });
}

World::~World() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    stop_changed_.notify_all();
  }
  watcher_.join();
  for (const std::shared_ptr<Handle>& handle : handles_->Get()) handle->ForgetWindows();
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(absl::ToChronoNanoseconds(
                         std::min(processes_->timeout(), absl::Hours(24))));
  while (processes_->status().ok() && Clock::now() < deadline && !Bury()) {
    std::this_thread::sleep_for(kBuryPause);
  }
  handles_->AbortAll();
}

std::string World::Failed() const { return absl::StrCat("rank ", processes_->rank(), " failed"); }

absl::Status World::Fail(const absl::Status& error, absl::string_view what) {
  if (absl::Status broken = processes_->SettledStatus(); !broken.ok()) return broken;
  const absl::Status annotated = Annotate(error, absl::StrCat(Failed(), ": ", what));
  processes_->Break(annotated);
  return annotated;
}

std::shared_ptr<Handle> World::NewHandle(const std::string& name) {
  auto handle = std::make_shared<Handle>(name, processes_->timeout());
  handles_->Add(handle);
  return handle;
}

std::shared_ptr<Traffic> World::NewTraffic(uint32_t group, std::shared_ptr<Handle> handle,
                                           bool by_copy_engine) {
  auto traffic = std::make_shared<Traffic>(group, std::move(handle), by_copy_engine);
  std::lock_guard<std::mutex> lock(mutex_);
  traffic_.push_back(traffic);
  return traffic;
}

void World::Retire(std::shared_ptr<Traffic> traffic) {
  std::lock_guard<std::mutex> lock(mutex_);
  retired_.push_back(std::move(traffic));
}

void World::Watch() {
  // Events are asked, and communicators freed, on this thread.
  static_cast<void>(cudaSetDevice(device_));
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    lock.unlock();
    if (processes_->UnsettledStatus().ok()) {
      CheckHandles();
      CheckTraffic();
      static_cast<void>(Bury());
    } else {
      CheckCopyEngines();
    }
    lock.lock();
    // The system's clock, since sanitizers cannot follow waits on the steady one.
    if (!stop_) stop_changed_.wait_until(lock, std::chrono::system_clock::now() + kWatchPeriod);
  }
}

void World::CheckHandles() {
  for (const std::shared_ptr<Handle>& handle : handles_->Get()) {
    const absl::Status error = handle->AsyncError();
    if (!error.ok()) processes_->Break(Annotate(error, Failed()));
  }
}

std::vector<std::shared_ptr<Traffic>> World::AllTraffic() {
  std::vector<std::shared_ptr<Traffic>> all;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const std::weak_ptr<Traffic>& weak : traffic_) {
    if (std::shared_ptr<Traffic> traffic = weak.lock(); traffic != nullptr) {
      all.push_back(std::move(traffic));
    }
  }
  traffic_.erase(std::remove_if(traffic_.begin(), traffic_.end(),
                                [](const auto& weak) { return weak.expired(); }),
                 traffic_.end());
  return all;
}

void World::CheckCopyEngines() {
  const Clock::time_point now = Clock::now();
  if (!broken_since_.has_value()) broken_since_ = now;
  const absl::Duration grace = std::min(kCopyGrace, processes_->timeout());
  if (absl::FromChrono(now - *broken_since_) <= grace) return;
  for (const std::shared_ptr<Traffic>& traffic : AllTraffic()) {
    const std::optional<CollectiveCall> call = traffic->FindCopying();
    if (!call.has_value()) continue;
    const std::string text = absl::StrCat(
        Annotate(processes_->UnsettledStatus(), absl::StrCat("rank ", processes_->rank()))
            .ToString(),
        "; this process ends: the copy "
        "engines of its device do not come out of ",
        call->ToString(), " on ", traffic->handle().name(), ", which NCCL cannot abort\n");
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    std::_Exit(EXIT_FAILURE);
  }
}

void World::CheckTraffic() {
  for (const std::shared_ptr<Traffic>& traffic : AllTraffic()) {
    const auto stuck = traffic->FindStuck(*processes_, processes_->timeout());
    if (!stuck.has_value()) continue;
    processes_->Break(absl::DeadlineExceededError(absl::StrCat(
        Failed(), ": timeout after ", absl::FormatDuration(processes_->timeout()), " in ",
        stuck->ToString(), " on ", traffic->handle().name(),
        ": all ranks have called it, and the device does not finish it; see whether the network or "
        "another rank's device has failed (NCCL_DEBUG=INFO)")));
  }
}

bool World::Bury() {
  std::vector<std::shared_ptr<Traffic>> retired;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    retired = std::exchange(retired_, {});
  }
  // In no fixed order: ranks free their communicators together, and have not retired them in one.
  std::vector<std::shared_ptr<Traffic>> left;
  for (std::shared_ptr<Traffic>& traffic : retired) {
    if (!traffic->IsIdle() || !traffic->handle().TryDestroy()) left.push_back(std::move(traffic));
  }
  const bool done = left.empty();
  std::lock_guard<std::mutex> lock(mutex_);
  for (std::shared_ptr<Traffic>& traffic : left) retired_.push_back(std::move(traffic));
  return done;
}

}  // namespace zeroth::nccl
