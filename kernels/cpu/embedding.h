// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_EMBEDDING_H_
#define ZEROTH_KERNELS_CPU_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// InvalidArgument names `op` and the place and value of the first token outside [0, vocab).
absl::Status CheckTokens(const char* op, int64_t batch, int64_t seq, int64_t vocab,
                         const int32_t* tokens);

// out[b, s] = table[tokens[b, s]] (+ positions[s]); positions [>= seq, dim] or null. Tokens have
// been checked. `dtype`, of table, positions and out, is fp32, bf16 or fp16.
void Embedding(int64_t batch, int64_t seq, int64_t dim, const int32_t* tokens, DType dtype,
               const void* table, const void* positions, void* out);

// A gradient that is a sum of rows of dout; each is fp32, bf16 or fp16.
struct RowGradients {
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const void* dout = nullptr;
  bool accumulate = false;
  DType grad_dtype = DType::kFloat32;
  void* gradient = nullptr;
};

// gradient[t] (+)= sum of dout over the places of t among `count`, in their order; without
// `accumulate` all [vocab, dim] are written. Tokens have been checked. Fails only when the
// workspace is refused.
absl::Status EmbeddingBackward(int64_t count, int64_t vocab, const int32_t* tokens,
                               const RowGradients& rows, Workspace& workspace);

// gradient[s] (+)= sum of dout[b, s] over b in order; without `accumulate` rows from seq to max_seq
// become zero.
void PositionBackward(int64_t batch, int64_t seq, int64_t max_seq, const RowGradients& rows);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_EMBEDDING_H_
