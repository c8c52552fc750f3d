// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_SWIGLU_H_
#define ZEROTH_KERNELS_CPU_SWIGLU_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// out = silu(gate) * up; gate_up [rows, 2 * hidden] holds gate, then up, in each row; out [rows,
// hidden]. `dtype`, of all arrays here and below, is fp32, bf16 or fp16.
void SwiGlu(int64_t rows, int64_t hidden, DType dtype, const void* gate_up, void* out);
// dgate_up may be gate_up.
void SwiGluBackward(int64_t rows, int64_t hidden, DType dtype, const void* gate_up,
                    const void* dout, void* dgate_up);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_SWIGLU_H_
