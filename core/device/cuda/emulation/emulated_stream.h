// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What emulated libraries enqueue on, and how tests make the emulated runtime fail.

#ifndef ZEROTH_CORE_DEVICE_CUDA_EMULATION_EMULATED_STREAM_H_
#define ZEROTH_CORE_DEVICE_CUDA_EMULATION_EMULATED_STREAM_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <optional>

#include "absl/status/status.h"

namespace zeroth::cuda::emulation {

// Runs `work` on the stream's thread after everything enqueued before. Streams run beside each
// other as on a device, so that the thread sanitizer sees where an event is missing. Internal after
// a sticky error; thread-safe.
absl::Status EnqueueOnEmulatedStream(cudaStream_t stream, std::function<void()> work);

// The same of work that `prepare` makes when it is enqueued: in the order of the host's calls, as a
// library's host takes part in them. Where the stream is captured, `prepare` makes it at each
// launch of the graph instead.
absl::Status EnqueuePreparedOnEmulatedStream(cudaStream_t stream,
                                             std::function<std::function<void()>()> prepare);

// The next calls to allocate memory fail, `count` of them, as on a full device.
void FailNextAllocations(int count);
// What the device has; allocations beyond it fail. 0: as much as the host gives.
void SetDeviceMemory(size_t bytes);
// Events are reached at this time of the device's from now on; nullopt: at the host's.
void SetDeviceClock(std::optional<std::chrono::nanoseconds> time);
// From now on every call fails with `error`, as after a fault inside a kernel; cudaSuccess ends it.
void SetStickyError(cudaError_t error);

}  // namespace zeroth::cuda::emulation

#endif  // ZEROTH_CORE_DEVICE_CUDA_EMULATION_EMULATED_STREAM_H_
