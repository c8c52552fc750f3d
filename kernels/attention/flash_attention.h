// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention by our own kernels, which follow FlashAttention-2.
//
// Tensor cores compute attention with 16-bit elements if the head width is a multiple of 8 and at
// most 128. Probabilities and their gradients are then rounded to the element type before they
// multiply values, keys and queries, because tensor cores require it; sums, exponentials and
// statistics are fp32. All other calls use fp32 arithmetic throughout.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// Pointers are device memory, aligned to their elements. Tensor cores need 16 bytes; calls with
// less alignment use the slower kernels.
//
// Enqueues forward. Its bits are the same in every run and on devices of every size. Fails if a
// launch is refused, with Internal for another dtype, and with InvalidArgument for more rows than
// CUDA can count.
absl::Status Attention(const AttentionCall& call, const LaunchTarget& target);

// Returns the number of scratch elements for AttentionBackward; linear in the sequence length.
int64_t AttentionBackwardScratch(const AttentionShape& shape);

// Enqueues backward. It recomputes the scores from `qkv` and `lse`, so that forward need not keep
// them: once for the gradients of keys and values, and once for those of queries. A single pass
// would save two matmuls of seven, but would have to add one of these gradients across blocks in an
// undefined order. `scratch`: AttentionBackwardScratch(shape) elements, until the stream has
// passed.
absl::Status AttentionBackward(const AttentionBackwardCall& call, float* scratch,
                               const LaunchTarget& target);

}  // namespace zeroth::cuda
