// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/mlp.h"

#include <utility>

#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {

Mlp::Mlp(std::string name, ActivationFunction activation, bool gated, std::unique_ptr<Linear> in,
         std::unique_ptr<Linear> out)
    : MlpLayer(std::move(name)), activation_(activation), gated_(gated) {
  in_ = AddChild(std::move(in));
  out_ = AddChild(std::move(out));
}

absl::StatusOr<Value> Mlp::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> Mlp::Compute(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(const Value hidden, Hidden(context, x));
  const auto makes_result = MakesResult(context, *out_);
  return out_->Forward(context, hidden);
}

absl::StatusOr<Value> Mlp::Hidden(Context& context, const Value& x) {
  if (activation_ == ActivationFunction::kGelu && !gated_) {
    return in_->Forward(context, x, Activation::kGelu);
  }
  ZEROTH_ASSIGN_OR_RETURN(const Value in, in_->Forward(context, x));
  if (!gated_) return ActivationOp(context, in, activation_);
  if (activation_ == ActivationFunction::kSilu) return SwiGluOp(context, in);
  const int64_t width = in.data.dim(-1) / 2;
  ZEROTH_ASSIGN_OR_RETURN(const Value gate, SliceOp(context, in, -1, 0, width));
  ZEROTH_ASSIGN_OR_RETURN(const Value up, SliceOp(context, in, -1, width, width));
  ZEROTH_ASSIGN_OR_RETURN(const Value opened, ActivationOp(context, gate, activation_));
  return MultiplyOp(context, opened, up);
}

}  // namespace zeroth
