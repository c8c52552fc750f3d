// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/delta_net.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/ops/divided.h"

namespace zeroth {
namespace {

// With a cache, resumes from owner's state, if any, and stages the final one, of shape `sizes`.
// Args: the arguments of the forward.
template <typename Args>
absl::Status UseCachedState(Context& context, const void* owner, absl::Span<const int64_t> sizes,
                            DType dtype, Args& args) {
  KeyValueCache* const cache = context.cache();
  if (cache == nullptr) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(context.CheckCacheUse());
  // The kernel refuses what leads to a negative size.
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
    return absl::OkStatus();
  }
  args.initial_state = cache->State(owner);
  ZEROTH_ASSIGN_OR_RETURN(args.final_state, context.Empty(Shape(sizes), dtype));
  return cache->SetNextState(owner, args.final_state);
}

// Computes args.out, and args.states if a backward will follow, or reads both from the kept
// outputs, as attention's are.
absl::Status ComputeOrReuseDeltaRule(Context& context, GatedDeltaRuleArgs& args) {
  KeptOutputs* const kept = context.kept_outputs();
  if (kept != nullptr && kept->is_second()) {
    ZEROTH_ASSIGN_OR_RETURN(args.out, kept->Take());
    ZEROTH_ASSIGN_OR_RETURN(args.states, kept->Take());
    return absl::OkStatus();
  }
  const DeltaNetShape& shape = args.shape;
  ZEROTH_ASSIGN_OR_RETURN(
      args.out, context.Empty(Shape({shape.batch, shape.seq, shape.value_heads * shape.value_dim}),
                              args.qkv.dtype()));
  if (context.recording() || kept != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(args.states,
                            context.Empty(Shape({shape.batch, shape.value_heads, shape.chunks(),
                                                 shape.key_dim, shape.value_dim}),
                                          DType::kFloat32));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::GatedDeltaRule(context.kernels(), args));
  if (kept == nullptr) return absl::OkStatus();
  // No copies: nothing writes to either afterwards.
  kept->Keep(args.out);
  kept->Keep(args.states);
  return absl::OkStatus();
}

// The backward of a rule whose forward had `args`, without the values of parameters.
absl::Status RuleBackward(Context& context, const GatedDeltaRuleArgs& args, Parameter& log_decay,
                          Parameter& dt_bias, const Tensor& dout, GradientNode& qkv,
                          GradientNode& gates) {
  GatedDeltaRuleBackwardArgs back;
  back.shape = args.shape;
  back.dout = dout;
  back.qkv = args.qkv;
  back.gates = args.gates;
  back.starts = args.starts;
  back.states = args.states;
  ZEROTH_ASSIGN_OR_RETURN(back.log_decay, FullValues(log_decay));
  ZEROTH_ASSIGN_OR_RETURN(back.dt_bias, FullValues(dt_bias));
  ZEROTH_ASSIGN_OR_RETURN(back.dqkv, context.EmptyLike(args.qkv));
  ZEROTH_ASSIGN_OR_RETURN(back.dgates, context.EmptyLike(args.gates));
  ZEROTH_ASSIGN_OR_RETURN(const GradientPlace dlog_decay,
                          TakeGradientPlace(context, log_decay, /*is_partial=*/false));
  ZEROTH_ASSIGN_OR_RETURN(const GradientPlace ddt_bias,
                          TakeGradientPlace(context, dt_bias, /*is_partial=*/false));
  back.dlog_decay = dlog_decay.tensor;
  back.accumulate_dlog_decay = dlog_decay.accumulate;
  back.ddt_bias = ddt_bias.tensor;
  back.accumulate_ddt_bias = ddt_bias.accumulate;
  ZEROTH_RETURN_IF_ERROR(kernels::GatedDeltaRuleBackward(context.kernels(), back));
  ZEROTH_RETURN_IF_ERROR(FinishGradient(context, log_decay, dlog_decay));
  ZEROTH_RETURN_IF_ERROR(FinishGradient(context, dt_bias, ddt_bias));
  ZEROTH_RETURN_IF_ERROR(AddGradient(context, qkv, std::move(back.dqkv)));
  return AddGradient(context, gates, std::move(back.dgates));
}

}  // namespace

absl::StatusOr<Value> ShortConvolutionOp(Context& context, const Value& x, Parameter& weight) {
  ShortConvolutionArgs args;
  args.x = x.data;
  ZEROTH_ASSIGN_OR_RETURN(args.weight, FullValues(weight));
  args.starts = context.document_starts();
  ZEROTH_ASSIGN_OR_RETURN(args.y, context.EmptyLike(x.data));
  // The kernel refuses other ranks.
  if (x.data.shape().rank() == 3 && args.weight.shape().rank() == 3) {
    ZEROTH_RETURN_IF_ERROR(UseCachedState(context, &weight,
                                          {x.data.dim(0), args.weight.dim(2) - 1, x.data.dim(2)},
                                          x.data.dtype(), args));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::ShortConvolution(context.kernels(), args));
  Value result = context.MakeValue(args.y);
  if (x.node == nullptr) return result;
  RecordBackward(
      context, result,
      [&context, &weight, x = args.x, starts = args.starts,
       node = x.node](const Tensor& dy) -> absl::Status {
        ShortConvolutionBackwardArgs back;
        back.dy = dy;
        back.x = x;
        ZEROTH_ASSIGN_OR_RETURN(back.weight, FullValues(weight));
        back.starts = starts;
        ZEROTH_ASSIGN_OR_RETURN(back.dx, context.EmptyLike(x));
        ZEROTH_ASSIGN_OR_RETURN(const GradientPlace dweight,
                                TakeGradientPlace(context, weight, /*is_partial=*/false));
        back.dweight = dweight.tensor;
        back.accumulate_dweight = dweight.accumulate;
        ZEROTH_RETURN_IF_ERROR(kernels::ShortConvolutionBackward(context.kernels(), back));
        ZEROTH_RETURN_IF_ERROR(FinishGradient(context, weight, dweight));
        return AddGradient(context, *node, std::move(back.dx));
      });
  return result;
}

absl::StatusOr<Value> GatedDeltaRuleOp(Context& context, const Value& qkv, const Value& gates,
                                       Parameter& log_decay, Parameter& dt_bias,
                                       DeltaNetShape shape) {
  if (qkv.data.shape().rank() != 3) {
    return InvalidArgument("gated delta rule: input ", qkv.data.shape().ToString(),
                           ", expected [batch, seq, ", shape.packed_dim(), "]");
  }
  shape.batch = qkv.data.dim(0);
  shape.seq = qkv.data.dim(1);
  GatedDeltaRuleArgs args;
  args.shape = shape;
  args.qkv = qkv.data;
  args.gates = gates.data;
  ZEROTH_ASSIGN_OR_RETURN(args.log_decay, FullValues(log_decay));
  ZEROTH_ASSIGN_OR_RETURN(args.dt_bias, FullValues(dt_bias));
  args.starts = context.document_starts();
  ZEROTH_RETURN_IF_ERROR(UseCachedState(
      context, &log_decay, {shape.batch, shape.value_heads, shape.key_dim, shape.value_dim},
      DType::kFloat32, args));
  ZEROTH_RETURN_IF_ERROR(ComputeOrReuseDeltaRule(context, args));
  Value result = context.MakeValue(args.out);
  if (qkv.node == nullptr || gates.node == nullptr) return result;
  // Backward reads neither: a view of parameters would keep their gather buffer.
  args.log_decay = args.dt_bias = args.out = Tensor();
  RecordBackward(context, result,
                 [&context, &log_decay, &dt_bias, args, qkv_node = qkv.node,
                  gates_node = gates.node](const Tensor& dout) {
                   return RuleBackward(context, args, log_decay, dt_bias, dout, *qkv_node,
                                       *gates_node);
                 });
  return result;
}

}  // namespace zeroth
