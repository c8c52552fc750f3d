// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_SWIGLU_H_
#define ZEROTH_KERNELS_CPU_SWIGLU_H_

#include <cstdint>

namespace zeroth::cpu {

// out = silu(gate) * up; gate_up [rows, 2 * hidden] holds gate, then up, in each row; out [rows,
// hidden].
void SwiGlu(int64_t rows, int64_t hidden, const float* gate_up, float* out);
// dgate_up may be gate_up.
void SwiGluBackward(int64_t rows, int64_t hidden, const float* gate_up, const float* dout,
                    float* dgate_up);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_SWIGLU_H_
