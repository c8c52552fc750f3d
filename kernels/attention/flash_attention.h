// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention by our own kernels, after FlashAttention-2.
//
// 16-bit elements whose heads are up to 128 wide, in multiples of 8, go through tensor cores. There
// probabilities and their gradients are rounded to the element type before they multiply values,
// keys and queries, which is all that tensor cores take; sums, exponentials and statistics are
// fp32. Everything else is fp32 arithmetic throughout.

#ifndef ZEROTH_KERNELS_ATTENTION_FLASH_ATTENTION_H_
#define ZEROTH_KERNELS_ATTENTION_FLASH_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// Pointers of calls are device memory, aligned to their elements; tensor cores need 16 bytes, and
// what is not so aligned takes the slower way.
//
// Enqueues. The same bits from run to run, and on every size of device. Fails where a launch is
// refused, for another dtype (Internal), and for more rows than CUDA can count (InvalidArgument).
absl::Status Attention(const AttentionCall& call, const LaunchTarget& target);

// Linear in the sequence.
int64_t AttentionBackwardScratch(const AttentionShape& shape);

// Scores are computed again from `qkv` and `lse`, so that forward keeps nothing else: once for the
// gradients of keys and values and once for those of queries. A single pass would save two products
// of seven, and would have to add up one of these gradients across blocks, in whatever order they
// run.
// `scratch`: AttentionBackwardScratch(shape) elements, until the stream has passed.
absl::Status AttentionBackward(const AttentionBackwardCall& call, float* scratch,
                               const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ATTENTION_FLASH_ATTENTION_H_
