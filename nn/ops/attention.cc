// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/attention.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/sinks.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/nn/kept_outputs.h"

namespace zeroth {

namespace {

absl::Status TakeShape(const Tensor& qkv, AttentionShape& shape) {
  if (qkv.shape().rank() != 3 || qkv.dim(2) != shape.packed_dim()) {
    return InvalidArgument("attention: input ", qkv.shape().ToString(), ", expected [batch, seq, ",
                           shape.packed_dim(), "]: queries, keys and values side by side");
  }
  shape.batch = qkv.dim(0);
  shape.seq = qkv.dim(1);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> EmptyLse(Context& context, const AttentionShape& shape) {
  return context.Empty(Shape({shape.batch, shape.heads, shape.seq}), DType::kFloat32);
}

// Changes the result of attention to that with sinks, if there are any.
absl::Status AddSinks(Context& context, const Parameter* sinks, const Tensor& out,
                      const Tensor& lse) {
  if (sinks == nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(*sinks));
  return Annotate(kernels::AttentionSinks(context.kernels(), {values, out, lse}), sinks->name());
}

absl::Status SinksBackward(Context& context, Parameter* sinks, const Tensor& dout,
                           const AttentionArgs& args) {
  if (sinks == nullptr || !sinks->requires_grad()) return absl::OkStatus();
  const AttentionShape& shape = args.shape;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(*sinks));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor rows,
      context.Empty(Shape({shape.batch * shape.seq, shape.heads}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(
      kernels::SinkGradient(context.kernels(), {values, dout, args.out, args.lse, rows}));
  ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, sinks->TakeGradient());
  return kernels::BiasGradient(context.kernels(), rows, slot.tensor, slot.accumulate);
}

// Computes args.out, and args.lse if sinks or a backward will follow, or reads both from the kept
// outputs.
absl::Status ComputeOrReuseAttention(Context& context, const Parameter* sinks,
                                     AttentionArgs& args) {
  KeptOutputs* const kept = context.kept_outputs();
  if (kept != nullptr && kept->is_second()) {
    ZEROTH_ASSIGN_OR_RETURN(args.out, kept->Take());
    ZEROTH_ASSIGN_OR_RETURN(args.lse, kept->Take());
    return absl::OkStatus();
  }
  const AttentionShape& shape = args.shape;
  ZEROTH_ASSIGN_OR_RETURN(
      args.out, context.Empty(Shape({shape.batch, shape.seq, shape.heads * shape.head_dim}),
                              args.qkv.dtype()));
  if (context.recording() || kept != nullptr || sinks != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(args.lse, EmptyLse(context, shape));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::Attention(context.kernels(), args));
  ZEROTH_RETURN_IF_ERROR(AddSinks(context, sinks, args.out, args.lse));
  if (kept == nullptr) return absl::OkStatus();
  // No copies: nothing writes to an attention's output afterwards.
  kept->Keep(args.out);
  kept->Keep(args.lse);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> CachedAttentionOp(Context& context, const Value& qkv, AttentionShape shape,
                                        const std::optional<RopeSpec>& rope, const void* layer,
                                        const Parameter* sinks) {
  ZEROTH_RETURN_IF_ERROR(TakeShape(qkv.data, shape));
  ZEROTH_RETURN_IF_ERROR(context.CheckCacheUse());
  KeyValueCache* const cache = context.cache();
  CachedAttentionArgs args;
  args.shape = shape;
  args.qkv = qkv.data;
  args.past = cache->size();
  if (rope.has_value()) {
    ZEROTH_RETURN_IF_ERROR(kernels::Rope(
        context.kernels(), {shape, qkv.data, *rope, {}, /*inverse=*/false, args.past}));
  }
  ZEROTH_ASSIGN_OR_RETURN(
      args.cache,
      cache->Of(layer, context.device(), 2 * shape.kv_heads * shape.head_dim, qkv.data.dtype()));
  ZEROTH_ASSIGN_OR_RETURN(
      args.out, context.Empty(Shape({shape.batch, shape.seq, shape.heads * shape.head_dim}),
                              qkv.data.dtype()));
  if (sinks != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(args.lse, EmptyLse(context, shape));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::CachedAttention(context.kernels(), args));
  ZEROTH_RETURN_IF_ERROR(AddSinks(context, sinks, args.out, args.lse));
  return context.MakeValue(args.out);
}

absl::StatusOr<Value> AttentionOp(Context& context, const Value& qkv, AttentionShape shape,
                                  const std::optional<RopeSpec>& rope, Parameter* sinks) {
  ZEROTH_RETURN_IF_ERROR(TakeShape(qkv.data, shape));
  if (rope.has_value()) {
    ZEROTH_RETURN_IF_ERROR(
        kernels::Rope(context.kernels(), {shape, qkv.data, *rope, context.document_starts()}));
  }
  AttentionArgs args;
  args.shape = shape;
  args.qkv = qkv.data;
  args.starts = context.document_starts();
  ZEROTH_RETURN_IF_ERROR(ComputeOrReuseAttention(context, sinks, args));
  Value result = context.MakeValue(args.out);
  if (qkv.node == nullptr) return result;
  RecordBackward(
      context, result,
      [&context, args, node = qkv.node, rope, sinks](const Tensor& dout) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(SinksBackward(context, sinks, dout, args));
        ZEROTH_ASSIGN_OR_RETURN(Tensor dqkv, context.EmptyLike(args.qkv));
        ZEROTH_RETURN_IF_ERROR(kernels::AttentionBackward(
            context.kernels(),
            {args.shape, dout, args.qkv, args.starts, args.out, args.lse, dqkv}));
        if (rope.has_value()) {
          ZEROTH_RETURN_IF_ERROR(kernels::Rope(
              context.kernels(), {args.shape, dqkv, *rope, args.starts, /*inverse=*/true}));
        }
        return AddGradient(context, *node, std::move(dqkv));
      });
  return result;
}

}  // namespace zeroth
