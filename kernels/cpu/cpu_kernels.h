// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// The kernels of the CPU, registered for device type "cpu". The destructor waits for the work that
// is enqueued, which uses this object's workspace.
class CpuKernels final : public Kernels {
 public:
  // Both must outlive this object.
  CpuKernels(Device& device, CpuStream& stream, const KernelOptions& options);
  ~CpuKernels() override;

  // Scratch memory of the operation that runs now; operations on one stream never overlap.
  Workspace& workspace() { return workspace_; }
  // Separate scratch memory for matmuls, because other operations call them.
  Workspace& gemm_workspace() { return gemm_workspace_; }
  // DeviceOptions::bits_of_any_team.
  bool any_team() const { return device().options().bits_of_any_team; }

 private:
  Workspace workspace_;
  Workspace gemm_workspace_;
};

// Registers an operation's function for CPUs. Define one at namespace scope, in a target with
// alwayslink:
//   absl::Status Run(const NormCall& call, CpuKernels& kernels);
//   const OnCpu<Run> norm;
// `kRun` does the work, on the stream's thread and that thread's OpenMP team.
template <auto kRun>
class OnCpu;

template <typename Call, absl::Status (*kRun)(const Call&, CpuKernels&)>
class OnCpu<kRun> {
 public:
  OnCpu() : registration_("cpu", Enqueue) {}

 private:
  static absl::Status Enqueue(Kernels& kernels, const Call& call, CallTensors tensors) {
    auto& cpu = static_cast<CpuKernels&>(kernels);
    CpuStream& stream = CpuStream::From(cpu.stream());
    // The compute stream runs this before it returns, so nothing need be kept.
    if (&stream == &cpu.device().compute_stream()) {
      return stream.Enqueue([&call, &cpu] { return kRun(call, cpu); });
    }
    std::vector<Tensor> kept;
    kept.reserve(tensors.size());
    for (const Tensor* tensor : tensors) kept.push_back(*tensor);
    return stream.Enqueue([call, &cpu, kept = std::move(kept)] { return kRun(call, cpu); });
  }
  const typename KernelTable<Call>::Registration registration_;
};

}  // namespace zeroth::cpu
