// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Graphs of the emulated CUDA runtime: captures streams and replays them. A captured stream becomes
// a lane of the graph. Each lane runs on its own thread, and waits for others only where events say
// so, so that the thread sanitizer sees where one is missing. What CUDA forbids during a capture
// returns CUDA's error and invalidates the capture.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "zeroth/core/device/cuda/emulation/emulated_runtime.h"
#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

namespace zeroth::cuda::emulation {
namespace {

// Nodes in the order in which they were captured, so that each comes after those it depends on.
struct Graph {
  struct Node {
    size_t lane = 0;
    std::function<void()> work;
    std::function<std::function<void()>()> prepare;  // makes the work, at each launch
    Nodes after;
  };
  std::vector<Node> nodes;
  size_t lanes = 1;  // the first is the stream that the capture began on
};

}  // namespace

// Guarded by CaptureMutex().
class Capture {
 public:
  Capture(cudaStream_t origin, cudaStreamCaptureMode mode)
      : origin_(origin), mode_(mode), thread_(std::this_thread::get_id()) {
    lanes_[origin] = {};
  }

  cudaStream_t origin() const { return origin_; }
  cudaStreamCaptureMode mode() const { return mode_; }
  bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }
  bool open() const { return open_; }
  bool spoiled() const { return spoiled_; }
  cudaError_t Spoil(cudaError_t error) {
    spoiled_ = true;
    return error;
  }

  void Join(cudaStream_t stream, const Nodes& after) {
    const auto [lane, fresh] = lanes_.try_emplace(stream);
    if (fresh) lane->second.index = graph_.lanes++;
    lane->second.last.insert(after.begin(), after.end());
  }
  void Leave(cudaStream_t stream) { lanes_.erase(stream); }
  void Add(cudaStream_t stream, std::function<void()> work,
           std::function<std::function<void()>()> prepare = nullptr) {
    Lane& lane = lanes_.at(stream);
    graph_.nodes.push_back({lane.index, std::move(work), std::move(prepare),
                            std::exchange(lane.last, {graph_.nodes.size()})});
  }
  const Nodes& Last(cudaStream_t stream) const { return lanes_.at(stream).last; }

  // No stream is captured any more.
  void Close() {
    open_ = false;
    for (const auto& [stream, lane] : lanes_) {
      stream->capture = nullptr;
      stream->is_captured.store(false, std::memory_order_relaxed);
    }
  }

  // True if every captured node precedes the origin stream's last one, so no stream is unjoined.
  bool IsJoined() const {
    std::vector<bool> reached(graph_.nodes.size(), false);
    for (const size_t node : Last(origin_)) reached[node] = true;
    for (size_t node = graph_.nodes.size(); node-- > 0;) {
      if (!reached[node]) return false;
      for (const size_t before : graph_.nodes[node].after) reached[before] = true;
    }
    return true;
  }

  Graph TakeGraph() { return std::move(graph_); }

 private:
  struct Lane {
    size_t index = 0;
    Nodes last;  // what the next node of the lane comes after
  };

  const cudaStream_t origin_;
  const cudaStreamCaptureMode mode_;
  const std::thread::id thread_;
  bool open_ = true;
  bool spoiled_ = false;
  Graph graph_;
  std::map<cudaStream_t, Lane> lanes_;
};

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
thread_local std::vector<std::shared_ptr<Capture>> own_captures;  // that this thread has begun

// The part of an instantiated graph that a launch needs, which the threads that run it share.
class Program {
 public:
  using Signal = CUevent_st::State;

  explicit Program(const Graph& graph)
      : graph_(graph), signals_(graph.nodes.size()), lane_ends_(graph.lanes) {
    for (const Graph::Node& node : graph_.nodes) {
      for (const size_t before : node.after) {
        if (graph_.nodes[before].lane == node.lane || signals_[before] != nullptr) continue;
        signals_[before] = std::make_unique<Signal>();
      }
    }
  }

  size_t lanes() const { return graph_.lanes; }

  // Called on the thread that launches, before any lane runs.
  void Prepare(uint64_t launch) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].prepare != nullptr) prepared_[{launch, i}] = graph_.nodes[i].prepare();
    }
  }
  void RunOrigin(uint64_t launch) {
    end_.Await(launch - 1);  // launches of one graph do not overlap
    start_.Reach(launch);
    RunLane(0, launch);
    for (size_t lane = 1; lane < graph_.lanes; ++lane) lane_ends_[lane].Await(launch);
    end_.Reach(launch);
  }
  void RunFork(size_t lane, uint64_t launch) {
    start_.Await(launch);
    RunLane(lane, launch);
    lane_ends_[lane].Reach(launch);
  }

 private:
  void RunLane(size_t lane, uint64_t launch) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Graph::Node& node = graph_.nodes[i];
      if (node.lane != lane) continue;
      for (const size_t before : node.after) {
        if (graph_.nodes[before].lane != lane) signals_[before]->Await(launch);
      }
      (node.prepare == nullptr ? node.work : Prepared(launch, i))();
      if (signals_[i] != nullptr) signals_[i]->Reach(launch);
    }
  }

  std::function<void()> Prepared(uint64_t launch, size_t node) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = prepared_.find({launch, node});
    std::function<void()> work = std::move(found->second);
    prepared_.erase(found);
    return work;
  }

  const Graph graph_;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, size_t>, std::function<void()>> prepared_;  // by launch and node
  std::vector<std::unique_ptr<Signal>> signals_;  // of nodes that other lanes wait for
  std::vector<Signal> lane_ends_;
  Signal start_;
  Signal end_;
};

cudaError_t SpoilOwn(cudaError_t error) {
  for (const std::shared_ptr<Capture>& capture : own_captures) capture->Spoil(error);
  return Report(error);
}

bool IsCaptured(cudaStream_t stream) {
  return stream != nullptr && stream->is_captured.load(std::memory_order_relaxed);
}
bool IsCaptured(cudaEvent_t event) {
  return event->state->is_captured.load(std::memory_order_relaxed);
}

}  // namespace

std::mutex& CaptureMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

cudaError_t RefuseWhileCapturing(cudaError_t error) {
  if (thread_mode == cudaStreamCaptureModeRelaxed || own_captures.empty()) return cudaSuccess;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  const bool strict = std::any_of(own_captures.begin(), own_captures.end(), [](const auto& own) {
    return own->mode() != cudaStreamCaptureModeRelaxed;
  });
  return strict ? SpoilOwn(error) : cudaSuccess;
}

cudaError_t RefuseIfCaptured(cudaStream_t stream) {
  if (IsCaptured(stream)) {
    std::lock_guard<std::mutex> lock(CaptureMutex());
    if (stream->capture != nullptr) {
      return Report(stream->capture->Spoil(cudaErrorStreamCaptureUnsupported));
    }
  }
  return RefuseWhileCapturing();
}

cudaError_t RefuseIfCaptured(cudaEvent_t event) {
  if (IsCaptured(event)) {
    std::lock_guard<std::mutex> lock(CaptureMutex());
    if (event->state->capture->open()) event->state->capture->Spoil(cudaErrorCapturedEvent);
    return Report(cudaErrorCapturedEvent);
  }
  return RefuseWhileCapturing();
}

bool CaptureWork(cudaStream_t stream, const std::function<void()>& work, cudaError_t* result) {
  if (!IsCaptured(stream)) return false;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  Capture& capture = *stream->capture;
  *result = capture.spoiled() ? Report(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
  if (!capture.spoiled()) capture.Add(stream, work);
  return true;
}

bool CapturePrepared(cudaStream_t stream, const std::function<std::function<void()>()>& prepare,
                     cudaError_t* result) {
  if (!IsCaptured(stream)) return false;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  Capture& capture = *stream->capture;
  *result = capture.spoiled() ? Report(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
  if (!capture.spoiled()) capture.Add(stream, nullptr, prepare);
  return true;
}

bool CaptureRecord(cudaEvent_t event, cudaStream_t stream, cudaError_t* result) {
  if (!IsCaptured(stream) && !IsCaptured(event)) return false;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  CUevent_st::State& state = *event->state;
  const std::shared_ptr<Capture> capture = stream == nullptr ? nullptr : stream->capture;
  state.capture = capture;
  state.is_captured.store(capture != nullptr, std::memory_order_relaxed);
  if (capture == nullptr) return false;
  state.captured = capture->Last(stream);
  *result = capture->spoiled() ? Report(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
  return true;
}

bool CaptureWait(cudaStream_t stream, cudaEvent_t event, cudaError_t* result) {
  if (!IsCaptured(stream) && !IsCaptured(event)) return false;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  const std::shared_ptr<Capture> from = event->state->capture;
  const std::shared_ptr<Capture> into = stream->capture;
  const auto refuse = [&](cudaError_t error) {
    if (from != nullptr && from->open()) from->Spoil(error);
    if (into != nullptr) into->Spoil(error);
    *result = Report(error);
    return true;
  };
  if (from == nullptr) return refuse(cudaErrorStreamCaptureIsolation);
  if (!from->open()) return refuse(cudaErrorCapturedEvent);
  if (into != nullptr && into != from) return refuse(cudaErrorStreamCaptureMerge);
  if (from->spoiled()) return refuse(cudaErrorStreamCaptureInvalidated);
  from->Join(stream, event->state->captured);
  stream->capture = from;
  stream->is_captured.store(true, std::memory_order_relaxed);
  *result = cudaSuccess;
  return true;
}

void LeaveCapture(cudaStream_t stream) {
  if (!IsCaptured(stream)) return;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  stream->capture->Spoil(cudaErrorStreamCaptureInvalidated);
  stream->capture->Leave(stream);
}

}  // namespace zeroth::cuda::emulation

using zeroth::cuda::emulation::Capture;
using zeroth::cuda::emulation::CaptureMutex;
using zeroth::cuda::emulation::EnqueueOnEmulatedStream;
using zeroth::cuda::emulation::own_captures;
using zeroth::cuda::emulation::Program;
using zeroth::cuda::emulation::Report;
using zeroth::cuda::emulation::StickyError;
using zeroth::cuda::emulation::thread_mode;

struct CUgraph_st {
  zeroth::cuda::emulation::Graph graph;
};

struct CUgraphExec_st {
  explicit CUgraphExec_st(const zeroth::cuda::emulation::Graph& graph)
      : program(std::make_shared<Program>(graph)) {
    while (forks.size() + 1 < program->lanes()) forks.push_back(std::make_unique<CUstream_st>());
  }

  std::mutex mutex;
  uint64_t launches = 0;
  std::shared_ptr<Program> program;
  std::vector<std::unique_ptr<CUstream_st>> forks;  // last: their threads run the program
};

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = StickyError(); error != cudaSuccess) return Report(error);
  if (stream == nullptr) return Report(cudaErrorStreamCaptureUnsupported);
  std::lock_guard<std::mutex> lock(CaptureMutex());
  if (stream->capture != nullptr) return Report(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>(stream, mode);
  stream->is_captured.store(true, std::memory_order_relaxed);
  own_captures.push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::lock_guard<std::mutex> lock(CaptureMutex());
  const std::shared_ptr<Capture> capture = stream == nullptr ? nullptr : stream->capture;
  if (capture == nullptr) return Report(cudaErrorIllegalState);
  if (capture->origin() != stream) {
    return Report(capture->Spoil(cudaErrorStreamCaptureUnmatched));
  }
  if (capture->mode() != cudaStreamCaptureModeRelaxed && !capture->IsOfThisThread()) {
    return Report(capture->Spoil(cudaErrorStreamCaptureWrongThread));
  }
  const bool joined = capture->IsJoined();
  capture->Close();
  own_captures.erase(std::remove(own_captures.begin(), own_captures.end(), capture),
                     own_captures.end());
  // An invalid capture is dropped here, although events may still refer to it.
  CUgraph_st captured{capture->TakeGraph()};
  if (capture->spoiled()) return Report(cudaErrorStreamCaptureInvalidated);
  if (!joined) return Report(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st(std::move(captured));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  std::lock_guard<std::mutex> lock(CaptureMutex());
  const bool captured = stream != nullptr && stream->capture != nullptr;
  *status = !captured                    ? cudaStreamCaptureStatusNone
            : stream->capture->spoiled() ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  if (const cudaError_t error = StickyError(); error != cudaSuccess) return Report(error);
  // The emulation ignores priorities, and no caller sets other flags.
  if ((flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority)) != 0) {
    return Report(cudaErrorNotSupported);
  }
  if (graph == nullptr) return Report(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st(graph->graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr || stream == nullptr) return Report(cudaErrorInvalidValue);
  {
    std::lock_guard<std::mutex> lock(CaptureMutex());
    // On a device it would become a node of the graph, but this project has no graphs of graphs.
    if (stream->capture != nullptr) return Report(stream->capture->Spoil(cudaErrorNotSupported));
  }
  std::lock_guard<std::mutex> lock(exec->mutex);
  const uint64_t launch = exec->launches + 1;
  const std::shared_ptr<Program>& program = exec->program;
  if (StickyError() == cudaSuccess) program->Prepare(launch);
  if (!EnqueueOnEmulatedStream(stream, [program, launch] { program->RunOrigin(launch); }).ok()) {
    return StickyError();
  }
  exec->launches = launch;
  for (size_t i = 0; i < exec->forks.size(); ++i) {
    exec->forks[i]->Push([program, lane = i + 1, launch] { program->RunFork(lane, launch); });
  }
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
