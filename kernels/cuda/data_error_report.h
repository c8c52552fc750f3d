// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_DATA_ERROR_REPORT_H_
#define ZEROTH_KERNELS_CUDA_DATA_ERROR_REPORT_H_

#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda {

// Describes an element that a kernel cannot work on; the first report is the one that is kept.
__device__ __forceinline__ void ReportDataError(DataErrorWord* word, DataErrorCode code,
                                                int32_t value, int64_t position, int64_t width,
                                                int64_t limit) {
  if (atomicCAS(&word->code, 0u, static_cast<unsigned>(code)) != 0u) return;
  word->value = value;
  word->position = position;
  word->width = width;
  word->limit = limit;
}

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_DATA_ERROR_REPORT_H_
