// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ROPE_H_
#define ZEROTH_KERNELS_CPU_ROPE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// Cosines and sines of every (position, frequency), kept between calls. Computed in double: in
// float the angle of a far position has lost the digits that tell neighbours apart. Not
// thread-safe.
class RopeTable {
 public:
  // `allocator` must outlive the table.
  explicit RopeTable(Allocator& allocator) : memory_(allocator) {}

  // Makes at least `seq` positions available; head_dim is even. Computes nothing if they are there
  // already.
  absl::Status Prepare(int64_t seq, int64_t head_dim, float theta);
  // Of one position, [head_dim / 2] each.
  const float* cosines(int64_t position) const { return data_ + position * head_dim_; }
  const float* sines(int64_t position) const { return cosines(position) + head_dim_ / 2; }

 private:
  Workspace memory_;
  float* data_ = nullptr;
  int64_t seq_ = 0;
  int64_t head_dim_ = 0;
  float theta_ = 0;
};

// Rotates the query and key heads of qkv [batch, seq, packed_dim], fp32, bf16 or fp16, in place, as
// RopeArgs says; `table` is prepared.
void Rope(const AttentionShape& shape, const RopeTable& table, bool inverse, DType dtype,
          void* qkv);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ROPE_H_
