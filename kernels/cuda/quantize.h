// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_QUANTIZE_H_
#define ZEROTH_KERNELS_CUDA_QUANTIZE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/quantized_blocks.h"

namespace zeroth::cuda {

// As Kernels::Quantize, Dequantize and SumQuantized; `shape` is that of one piece.
absl::Status Quantize(const QuantizedBlocks& shape, DType dtype, const void* values,
                      uint8_t* quantized, const LaunchTarget& target);
absl::Status Dequantize(const QuantizedBlocks& shape, int64_t pieces, const uint8_t* quantized,
                        DType dtype, void* values, const LaunchTarget& target);
absl::Status SumQuantized(const QuantizedBlocks& shape, int64_t pieces, const uint8_t* quantized,
                          bool mean, bool accumulate, DType dtype, void* sum,
                          const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_QUANTIZE_H_
