// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Output projection, softmax cross-entropy and their gradients in one pass over chunks of rows.

#ifndef ZEROTH_KERNELS_CPU_LINEAR_CROSS_ENTROPY_H_
#define ZEROTH_KERNELS_CPU_LINEAR_CROSS_ENTROPY_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/cross_entropy.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// As LinearCrossEntropyArgs of kernels.h. All matrices are contiguous and row-major.
struct LinearCrossEntropyCall {
  int64_t rows = 0;
  int64_t dim = 0;
  int64_t vocab = 0;
  DType dtype = DType::kFloat32;       // of hidden, weight and dhidden: fp32, bf16 or fp16
  DType grad_dtype = DType::kFloat32;  // of dweight: fp32, bf16 or fp16
  const void* hidden = nullptr;        // [rows, dim]
  const void* weight = nullptr;        // [vocab, dim]
  const int32_t* targets = nullptr;    // [rows]
  float* loss = nullptr;               // [1]
  void* dhidden = nullptr;             // [rows, dim], or null
  void* dweight = nullptr;             // [vocab, dim], or null
  bool accumulate_dweight = false;
  float grad_scale = 1.0f;
  bool any_team = false;  // of the products, see GemmCall
};

// The logits of a chunk stay below this, as long as a chunk has kMinChunkRows: every chunk reads
// the weight twice and its gradient once more, so that short chunks starve the products.
inline constexpr int64_t kChunkBytes = int64_t{64} << 20;
inline constexpr int64_t kMinChunkRows = 64;

// Rows whose logits exist at once, for these sizes: the fewest chunks within the limits, equally
// long but for the last.
int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab);

// InvalidArgument names the row and value of the first target outside [0, vocab) that is not
// kIgnoredTarget; nothing has been written then. Otherwise fails as Gemm() and the workspaces do.
// The sum over rows is the same whatever the chunks. The products have a workspace of their own.
// A dweight that is not fp32 is rounded once: if there are several chunks, their sum takes [vocab,
// dim] fp32 of `workspace`.
absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, Workspace& workspace,
                                Workspace& gemm_workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_LINEAR_CROSS_ENTROPY_H_
