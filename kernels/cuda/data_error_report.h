// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda {

// Publishes a report whose other fields have been written.
__device__ __forceinline__ void PublishDataError(DataErrorWord* word, DataErrorCode code) {
#if defined(ZEROTH_CUDA_EMULATION)
  __atomic_store_n(&word->code, static_cast<unsigned>(code), __ATOMIC_RELEASE);
#else
  __threadfence_system();
  *static_cast<volatile unsigned*>(&word->code) = static_cast<unsigned>(code);
#endif
}

// Reports an invalid element. Only the first report is kept.
__device__ __forceinline__ void ReportDataError(DataErrorWord* word, DataErrorCode code,
                                                int32_t value, int64_t position, int64_t width,
                                                int64_t limit) {
  if (atomicCAS(&word->claimed, 0u, 1u) != 0u) return;
  word->value = value;
  word->position = position;
  word->width = width;
  word->limit = limit;
  PublishDataError(word, code);
}

}  // namespace zeroth::cuda
