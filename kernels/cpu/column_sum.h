// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums over rows, as gradients of biases and of normalisation weights need. Rows are cut into
// blocks that depend on their number alone, each block is summed on its own and the blocks in
// order: the same bits for any number of threads.

#ifndef ZEROTH_KERNELS_CPU_COLUMN_SUM_H_
#define ZEROTH_KERNELS_CPU_COLUMN_SUM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// The cut: block b is rows [b * BlockRows(rows), (b + 1) * BlockRows(rows)), and there are
// BlockCount(rows) blocks.
int64_t BlockRows(int64_t rows);
int64_t BlockCount(int64_t rows);

// out[cols] (+)= sum of `blocks` rows of partial sums, `stride` elements apart; out is fp32 or
// bf16.
void AddBlocks(int64_t blocks, int64_t cols, int64_t stride, const float* partial, bool accumulate,
               DType out_dtype, void* out);

// out[cols] (+)= sum over rows of x [rows, cols], rows `stride` elements apart; each of x and out
// is fp32, bf16 or fp16. Fails only when the workspace is refused.
absl::Status ColumnSum(int64_t rows, int64_t cols, int64_t stride, DType dtype, const void* x,
                       bool accumulate, DType out_dtype, void* out, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_COLUMN_SUM_H_
