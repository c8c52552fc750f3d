// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/launch.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace zeroth::cuda {

absl::Status CheckLaunchShape(const char* kernel, const LaunchShape& shape, size_t shared_limit) {
  const auto refuse = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel, ": ", what...));
  };
  const uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  if (threads == 0 || threads > 1024 || shape.block.z > 64) {
    return refuse("a block of ", shape.block.x, " x ", shape.block.y, " x ", shape.block.z,
                  " threads; expected 1 to 1024, at most 64 of them deep");
  }
  if (shape.grid.x > 0x7fffffffu || shape.grid.y > 65535 || shape.grid.z > 65535) {
    return refuse("a grid of ", shape.grid.x, " x ", shape.grid.y, " x ", shape.grid.z,
                  " blocks; expected at most 2147483647 x 65535 x 65535");
  }
  if (shape.dynamic_shared_bytes > shared_limit) {
    return refuse(shape.dynamic_shared_bytes, " bytes of shared memory; a block may have ",
                  shared_limit);
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryGrants::Ensure(const void* kernel, int device, size_t bytes,
                                        const std::function<absl::Status(size_t)>& allow) {
  // Held during the driver's call, so that no thread launches before the driver has allowed it.
  std::lock_guard<std::mutex> lock(mutex_);
  size_t& allowed = allowed_[{kernel, device}];
  if (bytes <= allowed) return absl::OkStatus();
  absl::Status status = allow(bytes);
  if (status.ok()) allowed = bytes;
  return status;
}

#if !defined(ZEROTH_CUDA_EMULATION)
absl::Status AllowDynamicShared(const void* kernel, size_t bytes) {
  static auto* const grants = new SharedMemoryGrants;
  int device = 0;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
  return grants->Ensure(kernel, device, bytes, [&](size_t most) {
    return ToStatus(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(most)),
                    "cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)");
  });
}
#endif

}  // namespace zeroth::cuda
