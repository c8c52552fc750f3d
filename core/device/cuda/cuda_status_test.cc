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
           Case{cudaErrorInsufficientDriver, absl::StatusCode::kFailedPrecondition,
                "install one for CUDA "},
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

}  // namespace
}  // namespace zeroth::cuda
