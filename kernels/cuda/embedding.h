// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_EMBEDDING_H_
#define ZEROTH_KERNELS_CUDA_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// out[b, s] = table[tokens[b, s]] + positions[s] (null: none). A token outside [0, vocab) goes to
// `error`.
struct EmbeddingCall {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t vocab = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const int32_t* tokens = nullptr;
  const void* table = nullptr;
  const void* positions = nullptr;
  void* out = nullptr;
  DataErrorWord* error = nullptr;
};
absl::Status Embedding(const EmbeddingCall& call, const LaunchTarget& target);

// dtable[t] (+)= the sum of dout over the places of t, in their order: places are sorted by token,
// and each token's are added up by one block. All of dtable is written.
struct EmbeddingBackwardCall {
  int64_t places = 0;
  int64_t seq = 0;  // for messages
  int64_t vocab = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const int32_t* tokens = nullptr;
  const void* dout = nullptr;
  DType grad_dtype = DType::kFloat32;
  void* dtable = nullptr;
  bool accumulate = false;
  int32_t* scratch = nullptr;  // EmbeddingBackwardScratch(places)
  DataErrorWord* error = nullptr;
};
int64_t EmbeddingBackwardScratch(int64_t places);
absl::Status EmbeddingBackward(const EmbeddingBackwardCall& call, const LaunchTarget& target);

// dpositions[s] (+)= sum of dout[b, s] over b; rows from seq on count as zeros.
absl::Status PositionBackward(int64_t batch, int64_t seq, int64_t max_seq, int64_t dim, DType dtype,
                              const void* dout, DType grad_dtype, void* dpositions, bool accumulate,
                              const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_EMBEDDING_H_
