// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_stream.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/device_clock.h"

namespace zeroth::cuda {
namespace {

// The conditions of a stream, and the count needed of each.
using Conditions = std::map<std::shared_ptr<HostCondition>, uint64_t>;

void Merge(const Conditions& from, Conditions& into) {
  for (const auto& [condition, count] : from) {
    uint64_t& needed = into[condition];
    needed = std::max(needed, count);
  }
}

}  // namespace

// The state that a stream shares with its events: its first error, bad data that kernels have
// found, conditions, retained memory, events to be recorded again, and the recording in progress.
class StreamState {
 public:
  explicit StreamState(DataErrorWord* word) : word_(word) {}
  ~StreamState() {
    // Errors are ignored: when a process ends, its CUDA context may be gone.
    for (cudaEvent_t event : free_events_) static_cast<void>(cudaEventDestroy(event));
    static_cast<void>(cudaFreeHost(word_));
  }
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  static absl::StatusOr<std::shared_ptr<StreamState>> Create() {
    void* word = nullptr;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaHostAlloc(&word, sizeof(DataErrorWord), cudaHostAllocMapped));
    return std::make_shared<StreamState>(new (word) DataErrorWord);
  }

  absl::Status Get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  absl::Status Update(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(status);
    return status_;
  }
  // Call it after the host has waited for the stream, when kernels have written their errors.
  absl::Status UpdateFromData() { return Update(ToStatus(*word_)); }

  void Require(const Conditions& conditions) {
    std::lock_guard<std::mutex> lock(mutex_);
    Merge(conditions, conditions_);
  }
  Conditions conditions() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return conditions_;
  }
  // Awaits `conditions`, and removes them from the stream's.
  absl::Status AwaitAll(const Conditions& conditions) {
    for (const auto& [condition, count] : conditions) {
      const absl::Status met = condition->Await(count);
      std::lock_guard<std::mutex> lock(mutex_);
      status_.Update(met);
      const auto found = conditions_.find(condition);
      if (found != conditions_.end() && found->second <= count) conditions_.erase(found);
    }
    return Get();
  }
  DataErrorWord* word() const { return word_; }

  // Returns an event without a time, which may have been recorded before. Work that waits for that
  // record still waits for it alone.
  absl::StatusOr<cudaEvent_t> TakeEvent() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_events_.empty()) {
        cudaEvent_t event = free_events_.back();
        free_events_.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }
  void GiveEvent(cudaEvent_t event) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_events_.push_back(event);
  }

  std::shared_ptr<Playback> playback() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return playback_;
  }
  void set_playback(std::shared_ptr<Playback> playback) {
    std::lock_guard<std::mutex> lock(mutex_);
    playback_ = std::move(playback);
  }

  // Retained memory is numbered, so that an event knows which of it was retained before.
  void Retain(std::shared_ptr<const void> memory) {
    std::lock_guard<std::mutex> lock(mutex_);
    retained_.push_back({++last_retained_, std::move(memory)});
  }
  uint64_t last_retained() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_retained_;
  }
  void ReleaseUpTo(uint64_t number) {
    std::deque<Retained> passed;  // destroyed without the mutex
    std::lock_guard<std::mutex> lock(mutex_);
    while (!retained_.empty() && retained_.front().number <= number) {
      passed.push_back(std::move(retained_.front()));
      retained_.pop_front();
    }
  }

 private:
  struct Retained {
    uint64_t number;
    std::shared_ptr<const void> memory;
  };

  mutable std::mutex mutex_;
  absl::Status status_;
  uint64_t last_retained_ = 0;
  std::deque<Retained> retained_;  // oldest first
  std::vector<cudaEvent_t> free_events_;
  Conditions conditions_;  // that a waiting host must await
  std::shared_ptr<Playback> playback_;
  DataErrorWord* const word_;
};

namespace {

// Must be created on a thread whose current device is the stream's.
class CudaEvent final : public Event {
 public:
  CudaEvent(cudaEvent_t handle, const Device* device, std::shared_ptr<StreamState> state,
            std::shared_ptr<const DeviceClock::Mark> mark)
      : handle_(handle),
        device_(device),
        state_(std::move(state)),
        after_(state_->last_retained()),
        conditions_(state_->conditions()),
        playback_(state_->playback()),
        mark_(std::move(mark)) {}
  ~CudaEvent() override {
    // One of a recording belongs to its graph.
    if (mark_ == nullptr && playback_ == nullptr) {
      state_->GiveEvent(handle_);
    } else {
      static_cast<void>(cudaEventDestroy(handle_));
    }
  }

  bool IsDone() const override {
    if (IsBeforeRecording()) return true;
    if (playback_ == nullptr) return !IsPending();
    const std::shared_ptr<Event> end = playback_->last();
    return end != nullptr && end->IsDone();
  }
  absl::Status Synchronize() const override {
    if (IsBeforeRecording()) return state_->Get();
    if (playback_ != nullptr) {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> end, EndOfPlay());
      return end->Synchronize();
    }
    const absl::Status waited =
        zeroth::cuda::ToStatus(cudaEventSynchronize(handle_), "cudaEventSynchronize");
    if (!waited.ok()) return state_->Update(waited);
    ZEROTH_RETURN_IF_ERROR(state_->UpdateFromData());
    return state_->AwaitAll(conditions_);
  }
  absl::StatusOr<double> Seconds() const override {
    if (mark_ == nullptr) return Event::Seconds();
    ZEROTH_RETURN_IF_ERROR(Synchronize());
    return mark_->SecondsAt(handle_);
  }

  cudaEvent_t handle() const { return handle_; }
  const Device* device() const { return device_; }
  const StreamState& state() const { return *state_; }
  const Conditions& conditions() const { return conditions_; }
  const std::shared_ptr<Playback>& playback() const { return playback_; }
  // For an event of a recording: the end of the last play, which work outside the recording waits
  // for instead of the event.
  absl::StatusOr<std::shared_ptr<Event>> EndOfPlay() const {
    std::shared_ptr<Event> end = playback_->last();
    if (end != nullptr) return end;
    return absl::FailedPreconditionError(
        "this event is part of recorded work that has not been played");
  }
  // Call it after the compute stream has waited for this event.
  void ReleaseRetained() const { state_->ReleaseUpTo(after_); }

 private:
  bool IsPending() const {
    if (cudaEventQuery(handle_) != cudaErrorNotReady) return false;
    static_cast<void>(cudaGetLastError());  // CUDA treats "not ready" as an error
    return true;
  }
  // True if the stream is now being recorded and the event is from before, so it is done. Querying
  // CUDA would invalidate the capture.
  bool IsBeforeRecording() const { return playback_ == nullptr && state_->playback() != nullptr; }

  const cudaEvent_t handle_;
  const Device* const device_;  // for comparison only; it may be destroyed
  const std::shared_ptr<StreamState> state_;
  const uint64_t after_;                      // the number of the last memory retained before
  const Conditions conditions_;               // the stream's, at this point
  const std::shared_ptr<Playback> playback_;  // the event's recording, if it is part of one
  const std::shared_ptr<const DeviceClock::Mark> mark_;  // the origin of a timed event's time
};

}  // namespace

CudaStream& CudaStream::From(Stream& stream) {
  auto* const cuda_stream = dynamic_cast<CudaStream*>(&stream);
  ZEROTH_CHECK(cuda_stream != nullptr);
  return *cuda_stream;
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(Device& device, int ordinal,
                                                               absl::string_view name,
                                                               bool is_compute,
                                                               std::shared_ptr<LiveStreams> live) {
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<StreamState> state, StreamState::Create());
  int least = 0;
  int greatest = 0;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t handle = nullptr;
  // Communication has priority, because other ranks wait for it and it uses little of the device.
  ZEROTH_CUDA_RETURN_IF_ERROR(
      cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, is_compute ? least : greatest));
  return std::unique_ptr<CudaStream>(
      new CudaStream(device, ordinal, name, is_compute, handle, std::move(state), std::move(live)));
}

CudaStream::CudaStream(Device& device, int ordinal, absl::string_view name, bool is_compute,
                       cudaStream_t handle, std::shared_ptr<StreamState> state,
                       std::shared_ptr<LiveStreams> live)
    : device_(device),
      ordinal_(ordinal),
      name_(name),
      is_compute_(is_compute),
      handle_(handle),
      state_(std::move(state)),
      live_(std::move(live)) {
  live_->Add(this);
}

CudaStream::~CudaStream() {
  live_->Remove(this);
  // An error is ignored: a thread that waited for the stream has got it, or none needs it.
  static_cast<void>(cudaStreamSynchronize(handle_));
  state_->ReleaseUpTo(state_->last_retained());
  static_cast<void>(cudaStreamDestroy(handle_));
}

absl::StatusOr<std::shared_ptr<Event>> CudaStream::RecordEvent(bool timed) {
  ZEROTH_RETURN_IF_ERROR(status());
  if (timed) ZEROTH_RETURN_IF_ERROR(ExpectNotRecorded("tell the time"));
  const auto record = [&]() -> absl::StatusOr<std::shared_ptr<Event>> {
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_));
    std::shared_ptr<const DeviceClock::Mark> mark;
    if (timed) {
      ZEROTH_ASSIGN_OR_RETURN(mark, DeviceClock::Of(ordinal_).Latest());
    }
    cudaEvent_t handle = nullptr;
    if (timed) {
      ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&handle, cudaEventDefault));
    } else {
      ZEROTH_ASSIGN_OR_RETURN(handle, state_->TakeEvent());
    }
    auto event = std::make_shared<CudaEvent>(handle, &device_, state_, std::move(mark));
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventRecord(handle, handle_));
    return event;
  };
  absl::StatusOr<std::shared_ptr<Event>> event = record();
  if (!event.ok()) return Update(event.status());
  return event;
}

absl::StatusOr<std::shared_ptr<Event>> CudaStream::Record() { return RecordEvent(/*timed=*/false); }
absl::StatusOr<std::shared_ptr<Event>> CudaStream::RecordTime() {
  return RecordEvent(/*timed=*/true);
}

namespace {

// Orders `stream` after an event, where one of the two is part of a recording and the other is not,
// or they are parts of different recordings.
absl::Status WaitAcross(const CudaEvent& event, CudaStream& stream) {
  if (stream.playback() == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> end, event.EndOfPlay());
    return stream.Wait(end);
  }
  if (event.device() != &stream.device()) {
    return stream.ExpectNotRecorded("wait for another device");
  }
  // The device was idle when the recording began, and has run nothing since.
  return event.playback() == nullptr ? absl::OkStatus() : event.EndOfPlay().status();
}

}  // namespace

absl::Status CudaStream::Wait(const std::shared_ptr<Event>& event) {
  ZEROTH_RETURN_IF_ERROR(status());
  const auto* const cuda_event = dynamic_cast<const CudaEvent*>(event.get());
  // Only the host can wait for an event of another kind of device.
  if (cuda_event == nullptr) {
    ZEROTH_RETURN_IF_ERROR(ExpectNotRecorded("wait for another kind of device"));
    return Update(event->Synchronize());
  }
  if (absl::Status failed = cuda_event->state().Get(); !failed.ok()) return Update(failed);
  if (cuda_event->playback() == playback()) {
    ZEROTH_RETURN_IF_ERROR(Update(zeroth::cuda::ToStatus(
        cudaStreamWaitEvent(handle_, cuda_event->handle(), 0), "cudaStreamWaitEvent")));
  } else {
    ZEROTH_RETURN_IF_ERROR(WaitAcross(*cuda_event, *this));
  }
  state_->Require(cuda_event->conditions());
  // The event of another rank's device says nothing about the order of this device's memory.
  if (is_compute_ && cuda_event->device() == &device_) cuda_event->ReleaseRetained();
  return absl::OkStatus();
}

absl::Status CudaStream::Synchronize() {
  ZEROTH_RETURN_IF_ERROR(ExpectNotRecorded("be waited for by the host"));
  const absl::Status waited =
      zeroth::cuda::ToStatus(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
  state_->ReleaseUpTo(state_->last_retained());
  if (!waited.ok()) return Update(waited);
  ZEROTH_RETURN_IF_ERROR(state_->UpdateFromData());
  return state_->AwaitAll(state_->conditions());
}

std::shared_ptr<Playback> CudaStream::playback() const { return state_->playback(); }
void CudaStream::set_playback(std::shared_ptr<Playback> playback) {
  state_->set_playback(std::move(playback));
}
absl::Status CudaStream::ExpectNotRecorded(absl::string_view what) const {
  if (playback() == nullptr) return absl::OkStatus();
  return FailedPrecondition("stream '", name_, "' is being recorded and cannot ", what,
                            ": nothing runs before the recording is played; do it before or after");
}

absl::Status CudaStream::status() const { return state_->Get(); }
absl::Status CudaStream::Update(const absl::Status& status) { return state_->Update(status); }
DataErrorWord* CudaStream::data_error() const { return state_->word(); }

void CudaStream::Require(const std::shared_ptr<HostCondition>& condition, uint64_t count) {
  state_->Require({{condition, count}});
}

void CudaStream::Retain(std::shared_ptr<const void> memory) {
  if (!is_compute_) state_->Retain(std::move(memory));
}

}  // namespace zeroth::cuda
