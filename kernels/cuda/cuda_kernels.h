// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/cuda/cuda_stream.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cuda {

class CublasLt;

// The kernels of a GPU, registered for device type "cuda".
class CudaKernels final : public Kernels {
 public:
  // `device` and `stream` must outlive the result. Unimplemented for TF32 on a GPU before Ampere.
  static absl::StatusOr<std::unique_ptr<Kernels>> Create(CudaDevice& device, CudaStream& stream,
                                                         const KernelOptions& options = {});
  ~CudaKernels() override;

  std::vector<std::string> SlowMatmuls() const override;

  const DeviceProperties& properties() const { return device_.properties(); }
  // The stream and device on which operations launch kernels.
  const LaunchTarget& target() const { return target_; }
  // The word where kernels report invalid data; visible to the device.
  DataErrorWord* data_error() const { return stream_.data_error(); }
  // Allocates scratch memory for the work that the current call enqueues.
  absl::StatusOr<std::shared_ptr<Buffer>> Scratch(size_t bytes);
  // Returns the cuBLASLt handle. The first matmul creates it, because streams that only cast need
  // none.
  absl::StatusOr<CublasLt*> Blas();

  // Ends a call. Any error except a failed allocation fails the stream. On side streams, keeps
  // `tensors` and scratch memory alive until the stream has passed.
  absl::Status Finish(const absl::Status& launched, CallTensors tensors);

 private:
  CudaKernels(CudaDevice& device, CudaStream& stream, const KernelOptions& options);

  CudaDevice& device_;
  CudaStream& stream_;
  const LaunchTarget target_;
  std::unique_ptr<CublasLt> blas_;
  std::vector<std::shared_ptr<Buffer>> scratch_;  // of the current call, on side streams
};

// Registers an operation's function for CUDA. Define one at namespace scope, in a target with
// alwayslink:
//   absl::Status Run(const NormCall& call, CudaKernels& kernels);
//   const OnCuda<Run> norm;
// `kRun` runs on the host and enqueues the work.
template <auto kRun>
class OnCuda;

template <typename Call, absl::Status (*kRun)(const Call&, CudaKernels&)>
class OnCuda<kRun> {
 public:
  OnCuda() : registration_("cuda", Enqueue) {}

 private:
  static absl::Status Enqueue(Kernels& kernels, const Call& call, CallTensors tensors) {
    auto& cuda = static_cast<CudaKernels&>(kernels);
    ZEROTH_RETURN_IF_ERROR(kernels.stream().status());
    return cuda.Finish(kRun(call, cuda), tensors);
  }

  const typename KernelTable<Call>::Registration registration_;
};

}  // namespace zeroth::cuda
