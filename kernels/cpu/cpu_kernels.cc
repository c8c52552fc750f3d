// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/cpu_kernels.h"

#include <memory>

#include "absl/status/statusor.h"

namespace zeroth::cpu {

CpuKernels::CpuKernels(Device& device, CpuStream& stream, const KernelOptions& options)
    : Kernels(device, stream, options),
      workspace_(device.allocator()),
      gemm_workspace_(device.allocator()) {}

CpuKernels::~CpuKernels() {
  // The stream's owner reads its errors.
  stream().Synchronize().IgnoreError();
}

namespace {

const KernelRegistration registration(
    "cpu",
    [](Device& device, Stream& stream,
       const KernelOptions& options) -> absl::StatusOr<std::unique_ptr<Kernels>> {
      return std::make_unique<CpuKernels>(device, CpuStream::From(stream), options);
    });

}  // namespace
}  // namespace zeroth::cpu
