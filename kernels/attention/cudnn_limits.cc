// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/cudnn_limits.h"

#include <algorithm>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status CheckCudnnAttention(const AttentionShape& shape, DType dtype, bool packed_documents) {
  if (dtype != DType::kBFloat16 && dtype != DType::kFloat16) {
    return Unimplemented("cuDNN: it has no attention in ", DTypeName(dtype),
                         ", expected bf16 or fp16");
  }
  if (shape.head_dim % 8 != 0) {
    return Unimplemented("cuDNN: it has no attention with heads ", shape.head_dim,
                         " wide, expected a multiple of 8");
  }
  if (shape.cap > 0) {
    return Unimplemented(
        "cuDNN: capped scores are not asked of it; Zeroth's plain kernels compute "
        "attention with them");
  }
  if (shape.window > 0 || packed_documents) {
    return Unimplemented("cuDNN: ", packed_documents ? "packed documents" : "sliding windows",
                         " are not asked of it; Zeroth's own kernels compute attention with them");
  }
  return absl::OkStatus();
}

int64_t CudnnBackwardWorkspace(const AttentionShape& shape, CudnnBackward backward) {
  constexpr int64_t kHalf = 2;  // bytes of bf16 and fp16
  constexpr int64_t kFloat = 4;
  constexpr int64_t kTile = 64;  // on Hopper 128 in one of the two dimensions
  int64_t head = shape.seq * kFloat;
  if (backward == CudnnBackward::kKeepsScores) {
    const int64_t padded = (shape.seq + kTile - 1) / kTile * kTile;
    head += padded * padded * kHalf;
  }
  if (backward == CudnnBackward::kNotDeterministic) head += shape.seq * shape.head_dim * kFloat;
  // One gradient of keys and values per query head, before these are summed over a group.
  if (shape.heads != shape.kv_heads) {
    head += 2 * shape.seq * shape.head_dim *
            (backward == CudnnBackward::kKeepsNoScores ? kFloat : kHalf);
  }
  return shape.heads * head;
}

AttentionPart PartThatFits(const AttentionShape& shape, size_t sequence_bytes) {
  const auto fitting = static_cast<int64_t>(kMostCudnnWorkspace / sequence_bytes);
  AttentionPart part;
  part.sequences = std::clamp<int64_t>(fitting, 1, shape.batch);
  part.kv_heads = shape.kv_heads;
  const size_t head_bytes = sequence_bytes / static_cast<size_t>(shape.kv_heads);
  while (part.kv_heads > 0 &&
         (shape.kv_heads % part.kv_heads != 0 ||
          head_bytes * static_cast<size_t>(part.kv_heads) > kMostCudnnWorkspace)) {
    --part.kv_heads;
  }
  return part;
}

}  // namespace zeroth
