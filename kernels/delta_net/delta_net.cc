// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/delta_net/delta_net.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth {
namespace {

// Checks x, weight and starts, and sets the sizes and inputs of `call`.
void CheckConvolution(Operation& op, const Tensor& x, const Tensor& weight, const Tensor& starts,
                      SharedType& type, ShortConvolutionCall& call) {
  if (!op.Kind("x", x, type) || !op.Kind("weight", weight, type)) return;
  if (x.shape().rank() != 3) {
    op.WrongShape("x", x, "[batch, seq, channels]");
    return;
  }
  call.batch = x.dim(0);
  call.seq = x.dim(1);
  call.channels = x.dim(2);
  const Shape& taps = weight.shape();
  call.width = taps.rank() == 3 ? taps.dim(2) : 0;
  if (taps.rank() != 3 || taps.dim(0) != call.channels || taps.dim(1) != 1 || call.width < 1 ||
      call.width > kMostTaps) {
    op.WrongShape("weight", weight, absl::StrCat("[", call.channels, ", 1, 1 to ", kMostTaps, "]"));
    return;
  }
  if (starts.defined()) op.Exactly("starts", starts, {call.batch, call.seq}, DType::kInt32);
  if (!op.ok()) return;
  call.dtype = x.dtype();
  call.x = x.raw_data();
  call.weight = weight.raw_data();
  call.starts = DataOrNull<int32_t>(starts);
}

bool CheckDeltaNetShape(Operation& op, const DeltaNetShape& shape) {
  const bool sizes = shape.batch >= 0 && shape.seq >= 0 && shape.key_heads > 0 &&
                     shape.value_heads > 0 && shape.key_dim > 0 && shape.value_dim > 0;
  if (!op.Require(sizes, "shape", "has a negative size, or no heads or elements")) return false;
  if (shape.key_dim > kMostKeyDim) {
    return op.Require(
        false, "shape",
        absl::StrCat("has keys of ", shape.key_dim, " elements, expected at most ", kMostKeyDim));
  }
  return shape.value_heads % shape.key_heads == 0 ||
         op.Require(false, "shape",
                    absl::StrCat("has ", shape.value_heads, " value_heads and ", shape.key_heads,
                                 " key_heads, expected a divisor of value_heads"));
}

// Checks the inputs that forward and backward share, and sets them in `call`. Args: the arguments
// of either.
template <typename Args>
void CheckDeltaRule(Operation& op, const Args& args, SharedType& type, GatedDeltaRuleCall& call) {
  const DeltaNetShape& shape = args.shape;
  if (!CheckDeltaNetShape(op, shape)) return;
  const int64_t rows = shape.batch * shape.seq;
  op.Rows("qkv", args.qkv, rows, shape.packed_dim(), type);
  op.Rows("gates", args.gates, rows, 2 * shape.value_heads, type);
  op.Count("log_decay", args.log_decay, shape.value_heads, type);
  op.Count("dt_bias", args.dt_bias, shape.value_heads, type);
  if (args.starts.defined()) {
    op.Exactly("starts", args.starts, {shape.batch, shape.seq}, DType::kInt32);
  }
  if (args.states.defined()) {
    op.Exactly("states", args.states,
               {shape.batch, shape.value_heads, shape.chunks(), shape.key_dim, shape.value_dim},
               DType::kFloat32);
  }
  if (!op.ok()) return;
  call = {shape,
          args.qkv.dtype(),
          args.qkv.raw_data(),
          args.gates.raw_data(),
          args.log_decay.raw_data(),
          args.dt_bias.raw_data(),
          DataOrNull<int32_t>(args.starts),
          nullptr,
          DataOrNull(args.states),
          nullptr,
          nullptr};
}

// Checks the states before and after a sequence, both of `shape`. Args: the arguments of a forward.
template <typename Args, typename Type>
void CheckBoundaryStates(Operation& op, const Args& args, const Shape& shape, Type&& type) {
  const bool has_initial = args.initial_state.defined();
  const bool has_final = args.final_state.defined();
  if (has_initial) op.Exactly("initial_state", args.initial_state, shape, type);
  if (has_final) op.Exactly("final_state", args.final_state, shape, type);
  op.Require(!args.starts.defined() || (!has_initial && !has_final), "starts",
             absl::StrCat("is given together with ", has_initial ? "initial_state" : "final_state",
                          ", expected one of the two: packed documents cannot be computed in "
                          "pieces"));
}

}  // namespace

namespace kernels {

absl::Status ShortConvolution(Kernels& kernels, const ShortConvolutionArgs& args) {
  Operation op("ShortConvolution", kernels);
  SharedType type;
  ShortConvolutionCall call;
  CheckConvolution(op, args.x, args.weight, args.starts, type, call);
  op.Rows("y", args.y, call.batch * call.seq, call.channels, type);
  if (op.ok()) CheckBoundaryStates(op, args, {call.batch, call.width - 1, call.channels}, type);
  if (!op.ok()) return op.status();
  call.y = args.y.raw_data();
  call.initial_state = RawDataOrNull(args.initial_state);
  call.final_state = RawDataOrNull(args.final_state);
  const bool in_place = args.final_state.defined() && args.final_state.shape().numel() > 0 &&
                        call.final_state == call.initial_state;
  op.Require(!in_place, "final_state", "aliases initial_state, expected separate memory");
  return op.Run(call);
}

absl::Status ShortConvolutionBackward(Kernels& kernels, const ShortConvolutionBackwardArgs& args) {
  Operation op("ShortConvolutionBackward", kernels);
  SharedType type;
  ShortConvolutionBackwardCall call;
  CheckConvolution(op, args.x, args.weight, args.starts, type, call.forward);
  const int64_t rows = call.forward.batch * call.forward.seq;
  op.Rows("dy", args.dy, rows, call.forward.channels, type);
  op.Rows("dx", args.dx, rows, call.forward.channels, type);
  SharedType grad_type;
  if (args.dweight.defined()) {
    op.Count("dweight", args.dweight, call.forward.channels * call.forward.width, grad_type);
  }
  if (!op.ok()) return op.status();
  call.dy = args.dy.raw_data();
  call.dx = args.dx.raw_data();
  call.grad_dtype = grad_type.dtype;
  call.dweight = RawDataOrNull(args.dweight);
  call.accumulate_dweight = args.accumulate_dweight;
  return op.Run(call);
}

absl::Status GatedDeltaRule(Kernels& kernels, const GatedDeltaRuleArgs& args) {
  Operation op("GatedDeltaRule", kernels);
  SharedType type;
  GatedDeltaRuleCall call;
  CheckDeltaRule(op, args, type, call);
  const DeltaNetShape& shape = args.shape;
  op.Rows("out", args.out, shape.batch * shape.seq, shape.value_heads * shape.value_dim, type);
  if (op.ok()) {
    CheckBoundaryStates(op, args, {shape.batch, shape.value_heads, shape.key_dim, shape.value_dim},
                        DType::kFloat32);
    op.Require(
        !args.initial_state.defined() || !args.states.defined(), "states",
        "is given together with initial_state, expected one of the two: backward begins at zero");
  }
  if (!op.ok()) return op.status();
  call.out = args.out.raw_data();
  call.initial_state = DataOrNull(args.initial_state);
  call.final_state = DataOrNull(args.final_state);
  return op.Run(call);
}

absl::Status GatedDeltaRuleBackward(Kernels& kernels, const GatedDeltaRuleBackwardArgs& args) {
  Operation op("GatedDeltaRuleBackward", kernels);
  SharedType type;
  GatedDeltaRuleBackwardCall call;
  CheckDeltaRule(op, args, type, call.forward);
  const DeltaNetShape& shape = args.shape;
  const int64_t rows = shape.batch * shape.seq;
  op.Place("states", args.states);
  op.Rows("dout", args.dout, rows, shape.value_heads * shape.value_dim, type);
  op.Rows("dqkv", args.dqkv, rows, shape.packed_dim(), type);
  op.Rows("dgates", args.dgates, rows, 2 * shape.value_heads, type);
  SharedType grad_type;
  if (args.dlog_decay.defined()) {
    op.Count("dlog_decay", args.dlog_decay, shape.value_heads, grad_type);
  }
  if (args.ddt_bias.defined()) op.Count("ddt_bias", args.ddt_bias, shape.value_heads, grad_type);
  if (!op.ok()) return op.status();
  call.dout = args.dout.raw_data();
  call.dqkv = args.dqkv.raw_data();
  call.dgates = args.dgates.raw_data();
  call.grad_dtype = grad_type.dtype;
  call.dlog_decay = RawDataOrNull(args.dlog_decay);
  call.ddt_bias = RawDataOrNull(args.ddt_bias);
  call.accumulate_dlog_decay = args.accumulate_dlog_decay;
  call.accumulate_ddt_bias = args.accumulate_ddt_bias;
  return op.Run(call);
}

}  // namespace kernels
}  // namespace zeroth
