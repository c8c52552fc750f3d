// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which attention calls cuDNN computes, and how much of a call at a time. Needs no cuDNN, so that
// the planner (kernels/planned) can ask too.

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"

namespace zeroth {

// The most workspace that cuDNN gets for one call. At 2 bytes a score it holds 85 sequences of
// gpt2_124m, or one of 8192 tokens in 15 heads. Steps of gpt2_124m and llama_1b on an H200 took 1 %
// longer with 640 MiB, and were no faster with 6 GiB.
constexpr size_t kMostCudnnWorkspace = size_t{2} << 30;

// Returns Unimplemented for a call that no version of cuDNN computes.
absl::Status CheckCudnnAttention(const AttentionShape& shape, DType dtype, bool packed_documents);

// cuDNN's engines for backward.
enum class CudnnBackward : uint8_t {
  kKeepsScores,       // the deterministic one up to Hopper: stores the gradients of scores
  kKeepsNoScores,     // the deterministic one of Blackwell
  kNotDeterministic,  // adds to fp32 gradients of queries in any order
};

// Returns the engine of a device whose deterministic one keeps scores or does not.
constexpr CudnnBackward CudnnBackwardOf(bool keeps_scores, bool deterministic) {
  if (!deterministic) return CudnnBackward::kNotDeterministic;
  return keeps_scores ? CudnnBackward::kKeepsScores : CudnnBackward::kKeepsNoScores;
}

// Returns the workspace that an engine of cuDNN 9 needs for one sequence of 16-bit floats,
// according to its plans for A100, H200 and B200. On an A100 kNotDeterministic needs four bytes
// more for each element of the queries. The shape is not empty.
int64_t CudnnBackwardWorkspace(const AttentionShape& shape, CudnnBackward backward);

// The part that is computed at a time: several sequences, or some heads of one.
struct AttentionPart {
  int64_t sequences = 0;
  int64_t kv_heads = 0;  // divides the call's; 0 if not even one fits
};

// Returns the largest part of a call whose workspace is at most kMostCudnnWorkspace, if one
// sequence takes `sequence_bytes` > 0.
AttentionPart PartThatFits(const AttentionShape& shape, size_t sequence_bytes);

}  // namespace zeroth
