// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/cuda_kernels.h"

namespace zeroth::cuda {

// Enqueues a stable sort of `values` by `keys`, which are in [0, limit): values of equal keys keep
// their order. All arrays have `count` elements in device memory and do not overlap.
absl::Status SortByKey(int64_t count, int64_t limit, const int32_t* keys, const int32_t* values,
                       int32_t* sorted_keys, int32_t* sorted_values, CudaKernels& kernels);

}  // namespace zeroth::cuda
