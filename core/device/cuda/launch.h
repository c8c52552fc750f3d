// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/status/status.h"

#include "zeroth/core/device/cuda/cuda_status.h"

#if defined(ZEROTH_CUDA_EMULATION)
#include "zeroth/core/device/cuda/emulation/emulated_stream.h"
#include "zeroth/core/device/cuda/emulation/simt.h"
#endif

namespace zeroth::cuda {

// The grid and blocks of a launch. An empty grid is valid and launches nothing.
struct LaunchShape {
  dim3 grid = 1;
  dim3 block = 1;
  size_t dynamic_shared_bytes = 0;

  bool empty() const { return grid.x == 0 || grid.y == 0 || grid.z == 0; }
};

// Returns OK, or InvalidArgument with the CUDA limit that `shape` exceeds: threads per block, grid
// sizes, or shared memory. `shared_limit` is the shared memory that a block may have.
absl::Status CheckLaunchShape(const char* kernel, const LaunchShape& shape, size_t shared_limit);

// Raises the limits on kernels' dynamic shared memory. Beyond 48 KiB, static arrays included, a
// launch needs a limit of at least its size. Every kernel with dynamic shared memory gets one,
// because only the driver knows the size of its static arrays. A setting replaces the earlier one
// for all threads, so limits are never lowered. Thread-safe.
class SharedMemoryGrants {
 public:
  // Calls allow(bytes), and returns its error, unless `kernel` may use that much on `device`
  // already.
  absl::Status Ensure(const void* kernel, int device, size_t bytes,
                      const std::function<absl::Status(size_t)>& allow);

 private:
  std::mutex mutex_;
  std::map<std::pair<const void*, int>, size_t> allowed_;
};

// Allows `kernel` to use `bytes` on the current device, through the process's SharedMemoryGrants.
absl::Status AllowDynamicShared(const void* kernel, size_t bytes);

// The most shared memory of a block on the newest known devices.
inline constexpr size_t kLargestSharedBytes = size_t{227} << 10;

// Enqueues kernel(arguments...) on `stream`, with the arguments converted to the kernel's
// parameters. Errors of the running kernel are reported when the stream is synchronised.
// Thread-safe.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape,
                    cudaStream_t stream, Arguments&&... arguments) {
  if (shape.empty()) return absl::OkStatus();
  if (absl::Status status = CheckLaunchShape(name, shape, kLargestSharedBytes); !status.ok()) {
    return status;
  }
  std::tuple<Parameters...> parameters(
      static_cast<Parameters>(std::forward<Arguments>(arguments))...);
#if defined(ZEROTH_CUDA_EMULATION)
  return emulation::EnqueueOnEmulatedStream(stream, [name, kernel, shape, parameters] {
    emulation::RunGrid(name, shape.grid, shape.block, shape.dynamic_shared_bytes,
                       [&] { std::apply(kernel, parameters); });
  });
#else
  if (shape.dynamic_shared_bytes > 0) {
    absl::Status allowed =
        AllowDynamicShared(reinterpret_cast<const void*>(kernel), shape.dynamic_shared_bytes);
    if (!allowed.ok()) return allowed;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.dynamic_shared_bytes;
  config.stream = stream;
  return std::apply(
      [&](auto&... each) {
        void* pointers[] = {static_cast<void*>(&each)..., nullptr};
        return ToStatus(
            cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers), name);
      },
      parameters);
#endif
}

}  // namespace zeroth::cuda

// Calls Launch(kernel, shape, stream, arguments...) with the kernel's name for messages. Put
// parentheses around a kernel whose template arguments contain commas.
#define ZEROTH_LAUNCH(kernel, ...) ::zeroth::cuda::Launch(#kernel, kernel, __VA_ARGS__)
