// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_ROPE_H_
#define ZEROTH_KERNELS_CUDA_ROPE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// RopeArgs as numbers and pointers.
struct RopeCall {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;     // queries and keys together: what is rotated
  int64_t head_dim = 0;  // even
  int64_t packed_dim = 0;
  DType dtype = DType::kFloat32;
  void* qkv = nullptr;
  bool inverse = false;
  const float* table = nullptr;  // as RopeTable makes it, for at least seq positions
};
absl::Status Rope(const RopeCall& call, const LaunchTarget& target);

// table [seq, head_dim]: of each position head_dim / 2 cosines, then as many sines. Angles are made
// in double: in float the angle of a far position has lost the digits that tell neighbours apart.
absl::Status RopeTable(int64_t seq, int64_t head_dim, float theta, float* table,
                       const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ROPE_H_
