// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_EMBEDDING_H_
#define ZEROTH_KERNELS_CPU_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"

namespace zeroth::cpu {

// InvalidArgument names `op` and the place and value of the first token outside [0, vocab).
absl::Status CheckTokens(const char* op, int64_t batch, int64_t seq, int64_t vocab,
                         const int32_t* tokens);

// out[b, s] = table[tokens[b, s]] (+ positions[s]); positions [>= seq, dim] or null. Tokens have
// been checked.
void Embedding(int64_t batch, int64_t seq, int64_t dim, const int32_t* tokens, const float* table,
               const float* positions, float* out);

// dtable[t] (+)= sum of dout over the places of t, in their order; without `accumulate` all [vocab,
// dim] are written.
void EmbeddingBackward(int64_t count, int64_t vocab, int64_t dim, const int32_t* tokens,
                       const float* dout, bool accumulate, float* dtable);

// dpositions[s] (+)= sum of dout[b, s] over b in order; without `accumulate` rows from seq to
// max_seq become zero.
void PositionBackward(int64_t batch, int64_t seq, int64_t dim, int64_t max_seq, const float* dout,
                      bool accumulate, float* dpositions);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_EMBEDDING_H_
