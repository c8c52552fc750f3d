// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace zeroth::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorDevicesUnavailable:
      return absl::StatusCode::kFailedPrecondition;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
      return absl::StatusCode::kInvalidArgument;
    case cudaErrorNotSupported:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Returns what to do about the error, if that is not obvious.
absl::string_view Advice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
      return "; no GPU is visible here: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorInsufficientDriver:
      return "; there is no NVIDIA driver here, or one older than this binary's CUDA runtime";
    case cudaErrorNoKernelImageForDevice:
      return "; this binary has no code for this GPU: build with --cuda_archs naming it";
    case cudaErrorUnsupportedPtxVersion:
      return "; for this GPU the binary has only code that the driver must compile, and the driver "
             "is too old for it: build with --cuda_archs naming the GPU, or update the driver";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "; a kernel went wrong before this call, and the process cannot use the GPU any more: "
             "compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1, tells which";
    default:
      return "";
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t error, absl::string_view expression) {
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());
  return absl::Status(CodeOf(error),
                      absl::StrCat("CUDA: ", expression, " failed: ", cudaGetErrorName(error), " (",
                                   cudaGetErrorString(error), ")", Advice(error)));
}

}  // namespace zeroth::cuda
