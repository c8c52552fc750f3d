// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Recordings as CUDA graphs, which are captured from all streams of a device at once.

#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/cuda/caching_allocator.h"
#include "zeroth/core/device/cuda/cuda_stream.h"
#include "zeroth/core/device/device.h"

namespace zeroth::cuda {

// A recording in progress. All streams are captured from the beginning, not only once they wait for
// each other. Otherwise work on one stream would run while the other streams are recorded.
class RecordingInProgress {
 public:
  // Waits for the streams, and starts to record them. The first one is the compute stream. They
  // outlive this object.
  static absl::StatusOr<std::unique_ptr<RecordingInProgress>> Begin(
      std::vector<CudaStream*> streams, std::shared_ptr<CachingAllocator> allocator);
  // Drops the recorded work unless Finish was called.
  ~RecordingInProgress();
  RecordingInProgress(const RecordingInProgress&) = delete;
  RecordingInProgress& operator=(const RecordingInProgress&) = delete;

  // Ends the recording. Call it once.
  absl::StatusOr<std::unique_ptr<Recording>> Finish();

 private:
  RecordingInProgress(std::vector<CudaStream*> streams,
                      std::shared_ptr<CachingAllocator> allocator);
  absl::Status Fork();
  absl::Status Join();
  // Ends the capture, after which streams run their work again. Returns the captured graph.
  absl::StatusOr<cudaGraph_t> EndCapture();

  const std::vector<CudaStream*> streams_;
  const std::shared_ptr<CachingAllocator> allocator_;
  const CachingAllocator::PoolId pool_;
  const std::shared_ptr<Playback> playback_;
  bool capturing_ = false;
  bool keeps_pool_ = false;
};

// While this object exists, the calling thread may allocate and free memory although it captures.
// The runtime forbids that because a graph does not repeat it. Here that is intended: the allocator
// owns the memory.
class AllowDuringCapture {
 public:
  AllowDuringCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~AllowDuringCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  AllowDuringCapture(const AllowDuringCapture&) = delete;
  AllowDuringCapture& operator=(const AllowDuringCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace zeroth::cuda
