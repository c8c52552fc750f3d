// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_QUANTIZE_H_
#define ZEROTH_KERNELS_CPU_QUANTIZE_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/quantized_blocks.h"

namespace zeroth::cpu {

// As Kernels::Quantize, Dequantize and SumQuantized; `shape` is that of one piece.
void Quantize(const QuantizedBlocks& shape, DType dtype, const void* values, uint8_t* quantized);
void Dequantize(const QuantizedBlocks& shape, int64_t pieces, const uint8_t* quantized, DType dtype,
                void* values);
void SumQuantized(const QuantizedBlocks& shape, int64_t pieces, const uint8_t* quantized, bool mean,
                  bool accumulate, DType dtype, void* sum);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_QUANTIZE_H_
