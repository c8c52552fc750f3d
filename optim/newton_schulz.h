// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/muon_plan.h"

namespace zeroth {

// Returns scale * NS(x / max(|x|, 1e-7)) of each part of a matrix, NaN if |x|^2 overflows. NS
// repeats `steps` times
//   s = x x^T;  x <- 3.4445 x + (-4.7750 s + 2.0315 s^2) x
// (Jordan et al., 2024), on the transpose if a part has more rows than columns. It brings singular
// values near one, and keeps the vectors. Matmuls are in `precision`, fp32 or bf16, and accumulate
// in fp32. Enqueued. x is fp32 [matrix.rows * matrix.columns], and is overwritten; the result has
// its shape. The bits depend only on x and the device's kernels.
absl::StatusOr<Tensor> Orthogonalise(Kernels& kernels, const MuonMatrix& matrix, const Tensor& x,
                                     int steps, DType precision);

}  // namespace zeroth
