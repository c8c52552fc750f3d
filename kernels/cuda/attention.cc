// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/attention.h"

#include <cmath>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cuda/attention_kernels.h"
#include "zeroth/kernels/cuda/attention_plan.h"

namespace zeroth::cuda {
namespace {

bool IsEmpty(const AttentionShape& shape) {
  return shape.batch == 0 || shape.seq == 0 || shape.heads == 0 || shape.head_dim == 0;
}

template <typename... Pointers>
bool AreAligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

HeadLayout LayoutOf(const AttentionShape& shape) {
  HeadLayout at;
  at.seq = static_cast<int>(shape.seq);
  at.heads = static_cast<int>(shape.heads);
  at.kv_heads = static_cast<int>(shape.kv_heads);
  at.head_dim = static_cast<int>(shape.head_dim);
  at.packed = shape.packed_dim();
  at.out_token = shape.heads * shape.head_dim;
  at.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return at;
}

}  // namespace

absl::Status AttentionForward(const AttentionCall& call, const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  AttentionPlan plan;
  ZEROTH_RETURN_IF_ERROR(
      PlanAttention(call.shape, call.dtype, AreAligned(call.qkv, call.out), plan));
  const AttentionForwardParams params = {LayoutOf(call.shape), call.qkv, call.out, call.lse};
  return plan.path == AttentionPath::kMma
             ? LaunchMmaForward(plan, call.dtype, params, target.stream)
             : LaunchPlainForward(plan, call.dtype, params, target.stream);
}

int64_t AttentionBackwardScratchBytes(const AttentionShape& shape) {
  if (IsEmpty(shape)) return 0;
  return shape.batch * shape.heads * shape.seq * static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionBackward(const AttentionBackwardCall& call, void* scratch,
                               const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  const bool packed = AreAligned(call.dout, call.qkv, call.out, call.dqkv);
  AttentionPlan plan;
  ZEROTH_RETURN_IF_ERROR(PlanAttention(call.shape, call.dtype, packed, plan));
  const HeadLayout at = LayoutOf(call.shape);
  float* const delta = static_cast<float*>(scratch);
  ZEROTH_RETURN_IF_ERROR(LaunchAttentionDelta(at, call.shape.batch, call.dtype, packed, call.dout,
                                              call.out, delta, target.stream));
  const AttentionBackwardParams params = {at, call.dout, call.qkv, call.lse, delta, call.dqkv};
  return plan.path == AttentionPath::kMma
             ? LaunchMmaBackward(plan, call.dtype, params, target.stream)
             : LaunchPlainBackward(plan, call.dtype, params, target.stream);
}

}  // namespace zeroth::cuda
