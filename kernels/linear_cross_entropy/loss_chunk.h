// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth {

// The three matmuls of a chunk of rows, the same on every device.
struct LossChunk {
  const LinearCrossEntropyCall& call;
  const void* weight;  // [words, dim]
  // The logits of the chunk. Later their gradients in call.dtype replace them; each row keeps its
  // first address.
  float* logits;
  int64_t words;      // the vocabulary, padded or not; also the row stride of `logits`
  float* weight_sum;  // [words, dim], or null if dweight itself holds the sum of chunks
  int64_t begin;
  int64_t rows;

  GemmCall Logits() const {
    return {.m = rows,
            .n = words,
            .k = call.dim,
            .dtype = call.dtype,
            .a = Hidden(),
            .lda = call.dim,
            .b = weight,
            .ldb = call.dim,
            .transpose_b = true,
            .c = logits,
            .ldc = words};
  }
  GemmCall HiddenGradient() const {
    return {.m = rows,
            .n = call.dim,
            .k = words,
            .dtype = call.dtype,
            .c_dtype = call.dtype,
            .a = logits,
            .lda = GradientStride(),
            .b = weight,
            .ldb = call.dim,
            .c = Advance(call.dhidden, begin * call.dim, call.dtype),
            .ldc = call.dim};
  }
  GemmCall WeightGradient() const {
    const bool apart = weight_sum != nullptr;
    return {.m = words,
            .n = call.dim,
            .k = rows,
            .dtype = call.dtype,
            .c_dtype = apart ? DType::kFloat32 : call.grad_dtype,
            .a = logits,
            .lda = GradientStride(),
            .transpose_a = true,
            .b = Hidden(),
            .ldb = call.dim,
            .c = apart ? weight_sum : call.dweight,
            .ldc = call.dim,
            .accumulate = begin > 0 || (!apart && call.accumulate_dweight)};
  }

  const void* Hidden() const { return Advance(call.hidden, begin * call.dim, call.dtype); }
  int64_t GradientStride() const {
    return words * static_cast<int64_t>(sizeof(float) / SizeOf(call.dtype));
  }
};

// On a GPU: how a call is cut into chunks of rows, and the layout of its scratch memory, 256-byte
// aligned. Logits are fp32. Their gradients overwrite them row by row, in the call's dtype, for the
// matmuls that follow.
inline constexpr int64_t kLossColumnStep = 8;  // rows start on 16 bytes in 16-bit types too
struct LossPlan {
  int64_t chunk_rows = 0;  // number of rows whose logits exist at a time
  // The vocabulary, rounded up to a multiple of kLossColumnStep: the width of logits and of the
  // matmuls. Matmuls of other sizes run on slow kernels.
  int64_t words = 0;
  // Whether the vocabulary is shorter than `words`, so that the weight is copied to scratch memory
  // and padded with rows of zeros.
  bool pads_weight = false;
  // Whether dweight is summed over chunks in fp32 scratch memory, and then rounded once.
  bool sums_beside = false;
  size_t count_offset = 0;
  size_t losses_offset = 0;
  size_t logits_offset = 0;
  size_t sums_offset = 0;
  size_t weight_offset = 0;
  size_t scratch_bytes = 0;
};
LossPlan PlanLoss(const LinearCrossEntropyCall& call);

}  // namespace zeroth
