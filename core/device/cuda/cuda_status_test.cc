// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_status.h"

#include <string>

#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

struct Case {
  cudaError_t error;
  absl::StatusCode code;
  const char* advice;
};

TEST(CudaStatusTest, ErrorsSayWhatFailedAndWhatToDo) {
  EXPECT_TRUE(ToStatus(cudaSuccess, "cudaFree(x)").ok());
  for (const Case& each : {
           Case{cudaErrorMemoryAllocation, absl::StatusCode::kResourceExhausted, ""},
           Case{cudaErrorInvalidValue, absl::StatusCode::kInvalidArgument, ""},
           Case{cudaErrorNotSupported, absl::StatusCode::kUnimplemented, ""},
           Case{cudaErrorInsufficientDriver, absl::StatusCode::kFailedPrecondition, "--device=cpu"},
           Case{cudaErrorNoKernelImageForDevice, absl::StatusCode::kFailedPrecondition,
                "--cuda_archs"},
           Case{cudaErrorUnsupportedPtxVersion, absl::StatusCode::kFailedPrecondition,
                "update the driver"},
           Case{cudaErrorIllegalAddress, absl::StatusCode::kInternal, "compute-sanitizer"},
           Case{cudaErrorMisalignedAddress, absl::StatusCode::kInternal, "compute-sanitizer"},
       }) {
    const absl::Status status = ToStatus(each.error, "cudaFree(x)");
    EXPECT_EQ(status.code(), each.code) << status;
    EXPECT_EQ(std::string(status.message()).rfind("CUDA: cudaFree(x) failed: ", 0), 0u) << status;
    EXPECT_NE(std::string(status.message()).find(each.advice), std::string::npos) << status;
  }
}

// Which of these a machine's own driver gives differs between machines.
TEST(CudaStatusTest, DriverAdviceTellsAMissingDriverFromAnOldOne) {
  EXPECT_EQ(DriverAdvice(/*driver=*/0, /*runtime=*/13010),
            "there is no NVIDIA driver here (no libcuda.so.1): install one for CUDA 13.0 or later, "
            "or start the container with its GPUs, as by `docker run --gpus=all`; --device=cpu "
            "needs none");
  EXPECT_EQ(DriverAdvice(/*driver=*/12080, /*runtime=*/13010),
            "the NVIDIA driver is for CUDA 12.8, and this binary needs one for CUDA 13.0 or later: "
            "update the driver, or use --device=cpu");
}

}  // namespace
}  // namespace zeroth::cuda
