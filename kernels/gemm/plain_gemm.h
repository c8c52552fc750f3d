// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_PLAIN_GEMM_H_
#define ZEROTH_KERNELS_GEMM_PLAIN_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cuda {

// By a kernel of our own: any shapes, strides and types; slow.
absl::Status PlainGemm(const GemmCall& call, const LaunchTarget& target);

// The rest of `call`, which does not accumulate, for rows [begin, begin + rows) of c, given their
// product [rows, n].
absl::Status ApplyEpilogue(const GemmCall& call, int64_t begin, int64_t rows, const float* product,
                           const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_GEMM_PLAIN_GEMM_H_
