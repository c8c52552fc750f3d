// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ROPE_ROPE_H_
#define ZEROTH_KERNELS_ROPE_ROPE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention_shape.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Rotary position embedding (Su et al., 2021) on the query and key heads of a packed tensor, in
// place; element i of the lower half of a head is paired with element i of the upper half, position
// = index in the sequence.
struct RopeArgs {
  AttentionShape shape;
  Tensor qkv;  // [batch, seq, packed_dim]
  float theta = 10000.0f;
  bool inverse = false;  // rotate back: the backward of the same call
};

namespace kernels {

absl::Status Rope(Kernels& kernels, const RopeArgs& args);

}  // namespace kernels

// What devices compute.
struct RopeCall {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;     // queries and keys together: what is rotated
  int64_t head_dim = 0;  // even
  int64_t packed_dim = 0;
  DType dtype = DType::kFloat32;
  void* qkv = nullptr;
  float theta = 0;
  bool inverse = false;
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ROPE_ROPE_H_
