// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <memory>

#include <cub/device/device_radix_sort.cuh>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/kernels/cuda/radix_sort.h"

namespace zeroth::cuda {

absl::Status SortByKey(int64_t count, int64_t limit, const int32_t* keys, const int32_t* values,
                       int32_t* sorted_keys, int32_t* sorted_values, CudaKernels& kernels) {
  const int bits = std::max<int>(1, std::bit_width(static_cast<uint64_t>(limit - 1)));
  size_t scratch_bytes = 0;
  const auto sort = [&](void* scratch) {
    return cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, sorted_keys, values,
                                           sorted_values, count, 0, bits, kernels.target().stream);
  };
  ZEROTH_CUDA_RETURN_IF_ERROR(sort(nullptr));  // sets scratch_bytes
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch, kernels.Scratch(scratch_bytes));
  ZEROTH_CUDA_RETURN_IF_ERROR(sort(scratch->data()));
  return absl::OkStatus();
}

}  // namespace zeroth::cuda
