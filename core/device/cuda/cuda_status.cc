// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_status.h"

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

// "13.0" for 13000, as CUDA writes a version.
std::string SpellVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string AdviceForThisDriver() {
  int driver = 0;
  int runtime = 0;
  // The first also succeeds without a driver, and leaves 0.
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  return DriverAdvice(driver, runtime);
}

// Returns what to do about the error, if that is not obvious.
std::string Advice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
      return "; no GPU is visible here: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorInsufficientDriver:
      return absl::StrCat("; ", AdviceForThisDriver());
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

std::string DriverAdvice(int driver, int runtime) {
  const std::string needed = SpellVersion(runtime / 1000 * 1000);
  if (driver == 0) {
    return absl::StrCat("there is no NVIDIA driver here (no libcuda.so.1): install one for CUDA ",
                        needed, " or later, or start the container with its GPUs, as by ",
                        "`docker run --gpus=all`; --device=cpu needs none");
  }
  return absl::StrCat("the NVIDIA driver is for CUDA ", SpellVersion(driver),
                      ", and this binary needs one for CUDA ", needed,
                      " or later: update the driver, or use --device=cpu");
}

absl::Status ToStatus(cudaError_t error, absl::string_view expression) {
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());
  return absl::Status(CodeOf(error),
                      absl::StrCat("CUDA: ", expression, " failed: ", cudaGetErrorName(error), " (",
                                   cudaGetErrorString(error), ")", Advice(error)));
}

}  // namespace zeroth::cuda
