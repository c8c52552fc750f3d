// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_recording.h"

#include <utility>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth::cuda {
namespace {

class CudaRecording final : public Recording {
 public:
  CudaRecording(const Device& device, cudaGraphExec_t graph,
                std::shared_ptr<CachingAllocator> allocator, CachingAllocator::PoolId pool,
                std::shared_ptr<Playback> playback)
      : device_(device),
        graph_(graph),
        allocator_(std::move(allocator)),
        pool_(pool),
        playback_(std::move(playback)) {}

  ~CudaRecording() override {
    // An error is ignored: a thread that waited for the stream has got it, or none needs it.
    if (const std::shared_ptr<Event> end = playback_->last()) end->Synchronize().IgnoreError();
    static_cast<void>(cudaGraphExecDestroy(graph_));
    allocator_->ReleasePool(pool_);
  }

  absl::Status Play(Stream& stream) override {
    ZEROTH_CHECK(&stream.device() == &device_);
    CudaStream& on = CudaStream::From(stream);
    ZEROTH_RETURN_IF_ERROR(on.status());
    if (on.playback() != nullptr) {
      return FailedPrecondition("stream '", on.name(),
                                "' is being recorded; a recording cannot be part of another");
    }
    const std::vector<std::shared_ptr<PlayObserver>> observers = playback_->observers();
    for (const auto& observer : observers) ZEROTH_RETURN_IF_ERROR(observer->BeforePlay(on));
    ZEROTH_RETURN_IF_ERROR(
        on.Update(ToStatus(cudaGraphLaunch(graph_, on.handle()), "cudaGraphLaunch")));
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> end, on.Record());
    playback_->set_last(end);
    for (const auto& observer : observers) ZEROTH_RETURN_IF_ERROR(observer->AfterPlay(on, end));
    return absl::OkStatus();
  }

 private:
  const Device& device_;
  const cudaGraphExec_t graph_;
  const std::shared_ptr<CachingAllocator> allocator_;
  const CachingAllocator::PoolId pool_;
  const std::shared_ptr<Playback> playback_;
};

absl::StatusOr<cudaGraphExec_t> Instantiate(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  // Nodes keep the priorities of their streams. Otherwise all would have that of the compute
  // stream, and communication would wait for free SMs.
  const cudaError_t made =
      cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority);
  static_cast<void>(cudaGraphDestroy(graph));
  ZEROTH_RETURN_IF_ERROR(ToStatus(made, "cudaGraphInstantiate"));
  return executable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingInProgress>> RecordingInProgress::Begin(
    std::vector<CudaStream*> streams, std::shared_ptr<CachingAllocator> allocator) {
  ZEROTH_CHECK(!streams.empty() && streams.front()->is_compute());
  for (CudaStream* const stream : streams) ZEROTH_RETURN_IF_ERROR(stream->Synchronize());
  std::unique_ptr<RecordingInProgress> recording(
      new RecordingInProgress(std::move(streams), std::move(allocator)));
  ZEROTH_RETURN_IF_ERROR(recording->Fork());
  return recording;
}

RecordingInProgress::RecordingInProgress(std::vector<CudaStream*> streams,
                                         std::shared_ptr<CachingAllocator> allocator)
    : streams_(std::move(streams)),
      allocator_(std::move(allocator)),
      pool_(allocator_->OpenPool()),
      playback_(std::make_shared<Playback>()) {}

RecordingInProgress::~RecordingInProgress() {
  if (capturing_) {
    const absl::StatusOr<cudaGraph_t> dropped = EndCapture();
    if (dropped.ok()) static_cast<void>(cudaGraphDestroy(*dropped));
  }
  if (keeps_pool_) return;
  allocator_->ClosePool(pool_);
  allocator_->ReleasePool(pool_);
}

absl::Status RecordingInProgress::Fork() {
  CudaStream& compute = *streams_.front();
  // Thread-local, because other threads may allocate and wait meanwhile.
  ZEROTH_RETURN_IF_ERROR(compute.Update(
      ToStatus(cudaStreamBeginCapture(compute.handle(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture")));
  capturing_ = true;
  for (CudaStream* const stream : streams_) stream->set_playback(playback_);
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> begin, compute.Record());
  for (CudaStream* const stream : streams_) {
    if (stream != &compute) ZEROTH_RETURN_IF_ERROR(stream->Wait(begin));
  }
  return absl::OkStatus();
}

absl::Status RecordingInProgress::Join() {
  CudaStream& compute = *streams_.front();
  for (CudaStream* const stream : streams_) {
    if (stream == &compute) continue;
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> end, stream->Record());
    ZEROTH_RETURN_IF_ERROR(compute.Wait(end));
  }
  return absl::OkStatus();
}

absl::StatusOr<cudaGraph_t> RecordingInProgress::EndCapture() {
  capturing_ = false;
  for (CudaStream* const stream : streams_) stream->set_playback(nullptr);
  cudaGraph_t graph = nullptr;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaStreamEndCapture(streams_.front()->handle(), &graph));
  return graph;
}

absl::StatusOr<std::unique_ptr<Recording>> RecordingInProgress::Finish() {
  ZEROTH_CHECK(capturing_);
  // The capture has to be ended even after an error.
  const absl::Status joined = Join();
  const absl::StatusOr<cudaGraph_t> graph = EndCapture();
  if (!joined.ok()) {
    if (graph.ok()) static_cast<void>(cudaGraphDestroy(*graph));
    return joined;
  }
  ZEROTH_RETURN_IF_ERROR(graph.status());
  ZEROTH_ASSIGN_OR_RETURN(const cudaGraphExec_t executable, Instantiate(*graph));
  allocator_->ClosePool(pool_);
  keeps_pool_ = true;
  return std::unique_ptr<Recording>(
      new CudaRecording(streams_.front()->device(), executable, allocator_, pool_, playback_));
}

}  // namespace zeroth::cuda
