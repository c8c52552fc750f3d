// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Recordings as CUDA graphs, captured from all streams of a device at once.

#ifndef ZEROTH_CORE_DEVICE_CUDA_CUDA_RECORDING_H_
#define ZEROTH_CORE_DEVICE_CUDA_CUDA_RECORDING_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/cuda/caching_allocator.h"
#include "zeroth/core/device/cuda/cuda_stream.h"
#include "zeroth/core/device/cuda/playback.h"
#include "zeroth/core/device/device.h"

namespace zeroth::cuda {

// A recording that is being made. The streams take part from the beginning, not only once they wait
// for each other: what somebody enqueues on one of them must not run while the rest is recorded.
class RecordingInProgress {
 public:
  // Waits for the streams, the first of which is the compute stream; they outlive this.
  static absl::StatusOr<std::unique_ptr<RecordingInProgress>> Begin(
      std::vector<CudaStream*> streams, std::shared_ptr<CachingAllocator> allocator);
  // Drops what was recorded, unless Finish was called.
  ~RecordingInProgress();
  RecordingInProgress(const RecordingInProgress&) = delete;
  RecordingInProgress& operator=(const RecordingInProgress&) = delete;

  // Once.
  absl::StatusOr<std::unique_ptr<Recording>> Finish();

 private:
  RecordingInProgress(std::vector<CudaStream*> streams,
                      std::shared_ptr<CachingAllocator> allocator);
  absl::Status Fork();
  absl::Status Join();
  // Streams run again what they are given. The graph is nullptr if the capture failed.
  absl::StatusOr<cudaGraph_t> EndCapture();

  const std::vector<CudaStream*> streams_;
  const std::shared_ptr<CachingAllocator> allocator_;
  const CachingAllocator::PoolId pool_;
  const std::shared_ptr<Playback> playback_;
  bool capturing_ = false;
  bool keeps_pool_ = false;
};

// While it lives, the calling thread may allocate and free although it captures: the runtime
// forbids that since a graph would not repeat it, and memory here is not meant to be a graph's own.
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

#endif  // ZEROTH_CORE_DEVICE_CUDA_CUDA_RECORDING_H_
