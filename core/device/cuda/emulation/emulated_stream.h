// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How emulated libraries enqueue work, and how tests make the emulated runtime fail.

#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"

namespace zeroth::cuda::emulation {

// Runs `work` on the stream's thread after all work enqueued before. Streams run concurrently, as
// on a device, so that the thread sanitizer finds missing events. Internal after a sticky error.
// Thread-safe.
absl::Status EnqueueOnEmulatedStream(cudaStream_t stream, std::function<void()> work);

// Like EnqueueOnEmulatedStream, for work that `prepare` returns. `prepare` is called now, in the
// order of the host's calls, or, if the stream is being captured, at each launch of the graph.
absl::Status EnqueuePreparedOnEmulatedStream(cudaStream_t stream,
                                             std::function<std::function<void()>()> prepare);

// The next `count` allocations fail, as on a full device.
void FailNextAllocations(int count);
// The device's memory. Allocations beyond it fail. 0: no limit but the host's.
void SetDeviceMemory(size_t bytes);
// The number of events that were created so far.
int64_t EventsCreated();
// The device time at which events are reached from now on; nullopt: the host's time.
void SetDeviceClock(std::optional<std::chrono::nanoseconds> time);
// From now on every call fails with `error`, as after a fault in a kernel. cudaSuccess ends that.
void SetStickyError(cudaError_t error);

}  // namespace zeroth::cuda::emulation
