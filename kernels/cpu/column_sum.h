// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums over rows, for gradients of biases and of norm weights. Rows are divided into blocks, which
// depend on the number of rows alone. Each block is summed separately, and then the blocks in
// order. The bits are the same for any number of threads.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// Return the number of rows in a block, and the number of blocks. Block b begins at row
// b * BlockRows(rows); the last one may be shorter.
int64_t BlockRows(int64_t rows);
int64_t BlockCount(int64_t rows);

// out[cols] (+)= the sum of `blocks` rows of partial sums, `stride` elements apart; out is fp32,
// bf16 or fp16.
void AddBlocks(int64_t blocks, int64_t cols, int64_t stride, const float* partial, bool accumulate,
               DType out_dtype, void* out);

// out[cols] (+)= sum over rows of x [rows, cols], rows `stride` elements apart; each of x and out
// is fp32, bf16 or fp16. Fails only if the workspace cannot be allocated.
absl::Status ColumnSum(int64_t rows, int64_t cols, int64_t stride, DType dtype, const void* x,
                       bool accumulate, DType out_dtype, void* out, Workspace& workspace);

}  // namespace zeroth::cpu
