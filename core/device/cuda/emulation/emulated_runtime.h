// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the emulated CUDA runtime: definitions of the types that CUDA only
// declares, and how a call is refused.

#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "zeroth/core/device/cuda/emulation/watched.h"

namespace zeroth::cuda::emulation {

class Capture;

// A node of a graph, by its place in the order in which nodes were captured.
using Nodes = std::set<size_t>;

}  // namespace zeroth::cuda::emulation

struct CUevent_st {
  // Outlives the event where a stream has yet to reach it, as on a device.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0;   // how often it was recorded
    uint64_t completed = 0;  // the latest of these that was reached
    std::chrono::steady_clock::time_point reached;
    // The capture of the stream in which it was recorded last, if that was being captured; the
    // event then stands for the work captured until then.
    std::shared_ptr<zeroth::cuda::emulation::Capture> capture;  // guarded by CaptureMutex(), as are
    zeroth::cuda::emulation::Nodes captured;                    // these
    std::atomic<bool> is_captured{false};  // has a capture; readable without the lock

    void Reach(uint64_t number);
    void Await(uint64_t number);
    // These apply to the recording that is the latest when they are called.
    bool IsReached();
    void AwaitLast();
    uint64_t Record();

    // Several places, so that a wait for one recording is not ordered after the next.
    static constexpr size_t kPlaces = 4;
    zeroth::cuda::emulation::Edges edges{kPlaces};  // by number of the recording
  };
  std::shared_ptr<State> state = std::make_shared<State>();
  bool timed = false;
};

// For the thread sanitizer, work happens after the call that enqueued it and after the stream's
// earlier work. Only waiters happen after it. The queue's lock orders nothing, as a device has
// none.
struct CUstream_st {
  struct Work {
    std::function<void()> run;
    zeroth::cuda::emulation::Edges enqueued{1};
  };

  CUstream_st();
  // Runs what is enqueued.
  ~CUstream_st();

  void Push(std::function<void()> work);
  void Drain();
  bool IsIdle();
  void Run();
  // The next piece, or null at the end.
  std::unique_ptr<Work> Take();
  void Finish();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Work>> queue;
  zeroth::cuda::emulation::Edges done{1};
  bool running = false;
  bool stopping = false;
  std::shared_ptr<zeroth::cuda::emulation::Capture> capture;  // guarded by CaptureMutex()
  std::atomic<bool> is_captured{false};                       // the same
  std::thread thread;  // last: it starts when everything above exists
};

namespace zeroth::cuda::emulation {

// Remembers an error for cudaGetLastError, and returns it.
cudaError_t Report(cudaError_t error);
// Returns the error that every call returns after a fault, or cudaSuccess.
cudaError_t StickyError();

// The functions below are in capture.cc. One lock guards all captures. Threads that capture nothing
// never lock it, so that it adds no order between them.
std::mutex& CaptureMutex();

// Called first by a call that waits, or whose effect a graph could not repeat: an error if this
// thread is capturing and has not relaxed its mode. It invalidates the capture, as on a device.
cudaError_t RefuseWhileCapturing(cudaError_t error = cudaErrorStreamCaptureUnsupported);
// Called first by a call that waits for `stream` or queries its state. If `stream` is being
// captured, invalidates that capture and returns an error; otherwise calls RefuseWhileCapturing.
cudaError_t RefuseIfCaptured(cudaStream_t stream);
// Like RefuseIfCaptured(stream), for a call that waits for `event` or queries its state.
cudaError_t RefuseIfCaptured(cudaEvent_t event);

// If `stream` is captured, adds the call to the capture, stores its result, and returns true; there
// is nothing to run then. Otherwise returns false.
bool CaptureWork(cudaStream_t stream, const std::function<void()>& work, cudaError_t* result);
bool CapturePrepared(cudaStream_t stream, const std::function<std::function<void()>()>& prepare,
                     cudaError_t* result);
bool CaptureRecord(cudaEvent_t event, cudaStream_t stream, cudaError_t* result);
bool CaptureWait(cudaStream_t stream, cudaEvent_t event, cudaError_t* result);
// Invalidates the capture of a stream that is being destroyed.
void LeaveCapture(cudaStream_t stream);

}  // namespace zeroth::cuda::emulation
