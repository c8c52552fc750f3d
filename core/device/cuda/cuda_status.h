// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace zeroth::cuda {

// Returns OK, or an error with the failed expression, and CUDA's name and text of the error.
// ResourceExhausted for memory, FailedPrecondition for a missing driver or device, InvalidArgument
// for arguments, Unimplemented for what is not supported, Internal for everything else. Clears the
// thread's last error: libraries that check it after their own launches would mistake it for
// theirs.
absl::Status ToStatus(cudaError_t error, absl::string_view expression);

// Returns what to do if the driver is missing or too old for the runtime. Versions are CUDA's, as
// 13000 for 13.0; the driver's is 0 if there is none.
std::string DriverAdvice(int driver, int runtime);

}  // namespace zeroth::cuda

// Returns from the enclosing function if a call of the CUDA runtime failed.
#define ZEROTH_CUDA_RETURN_IF_ERROR(expression)                                                 \
  do {                                                                                          \
    if (const cudaError_t zeroth_cuda_error = (expression); zeroth_cuda_error != cudaSuccess) { \
      return ::zeroth::cuda::ToStatus(zeroth_cuda_error, #expression);                          \
    }                                                                                           \
  } while (false)
