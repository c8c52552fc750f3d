// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/flash_attention.h"

#include <cmath>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention_choice.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_plan.h"

namespace zeroth::cuda {
namespace {

HeadLayout LayoutOf(const AttentionShape& shape, const int32_t* starts, bool aligned) {
  HeadLayout at;
  at.seq = static_cast<int>(shape.seq);
  at.heads = static_cast<int>(shape.heads);
  at.kv_heads = static_cast<int>(shape.kv_heads);
  at.head_dim = static_cast<int>(shape.head_dim);
  at.packed = shape.packed_dim();
  at.out_token = shape.heads * shape.head_dim;
  at.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  at.in_packs = aligned && shape.head_dim % 4 == 0;
  at.window = static_cast<int>(shape.window);
  at.starts = starts;
  return at;
}

}  // namespace

absl::Status Attention(const AttentionCall& call, const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  const bool aligned = AreAligned(call.qkv, call.out);
  AttentionPlan plan;
  ZEROTH_RETURN_IF_ERROR(PlanAttention(call.shape, call.dtype, aligned, plan));
  const AttentionForwardParams params = {LayoutOf(call.shape, call.starts, aligned), call.qkv,
                                         call.out, call.lse};
  return plan.path == AttentionPath::kMma
             ? LaunchMmaForward(plan, call.dtype, params, target.stream)
             : LaunchPlainForward(plan, call.dtype, params, target.stream);
}

int64_t AttentionBackwardScratch(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq;
}

absl::Status AttentionBackward(const AttentionBackwardCall& call, float* scratch,
                               const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  const bool aligned = AreAligned(call.dout, call.qkv, call.out, call.dqkv);
  AttentionPlan plan;
  ZEROTH_RETURN_IF_ERROR(PlanAttention(call.shape, call.dtype, aligned, plan));
  const HeadLayout at = LayoutOf(call.shape, call.starts, aligned);
  ZEROTH_RETURN_IF_ERROR(LaunchAttentionDelta(at, call.shape.batch, call.dtype, aligned, call.dout,
                                              call.out, scratch, target.stream));
  const AttentionBackwardParams params = {at, call.dout, call.qkv, call.lse, scratch, call.dqkv};
  return plan.path == AttentionPath::kMma
             ? LaunchMmaBackward(plan, call.dtype, params, target.stream)
             : LaunchPlainBackward(plan, call.dtype, params, target.stream);
}

}  // namespace zeroth::cuda
