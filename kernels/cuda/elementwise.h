// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Operations on elements that know nothing of each other. Pointers are device memory of the types
// named; sizes are in elements; everything is enqueued. Results of an element do not depend on its
// place.

#ifndef ZEROTH_KERNELS_CUDA_ELEMENTWISE_H_
#define ZEROTH_KERNELS_CUDA_ELEMENTWISE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// out = a + b; out may be either.
absl::Status Add(int64_t count, DType dtype, const void* a, const void* b, void* out,
                 const LaunchTarget& target);
// x *= factor.
absl::Status Scale(int64_t count, DType dtype, void* x, float factor, const LaunchTarget& target);
// x += weight * (to - x).
absl::Status Lerp(int64_t count, DType dtype, void* x, const void* to, float weight,
                  const LaunchTarget& target);
// Between fp32, bf16 and fp16.
absl::Status Cast(int64_t count, const void* src, DType src_dtype, void* dst, DType dst_dtype,
                  const LaunchTarget& target);
// y = gelu(x), tanh form; in place allowed.
absl::Status Gelu(int64_t count, DType dtype, const void* x, void* y, const LaunchTarget& target);
// dx = dy * gelu'(x); dx may be dy.
absl::Status GeluBackward(int64_t count, DType dtype, const void* x, const void* dy, void* dx,
                          const LaunchTarget& target);
// gate_up [rows, 2 * hidden] → out [rows, hidden].
absl::Status SwiGlu(int64_t rows, int64_t hidden, DType dtype, const void* gate_up, void* out,
                    const LaunchTarget& target);
absl::Status SwiGluBackward(int64_t rows, int64_t hidden, DType dtype, const void* gate_up,
                            const void* dout, void* dgate_up, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ELEMENTWISE_H_
