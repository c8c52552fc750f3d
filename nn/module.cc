// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/module.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

// Activation checkpointing (Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost"):
// computes body(x), the body of `module`, and records only how to recompute it in backward. Outputs
// in `kept`, which may be null, are read rather than recomputed. `body` is kept until then: it must
// hold nothing that a caller's stack owns, and give the same result each time.
absl::StatusOr<Value> Recomputed(
    Context& context, const Module& module, const Value& x, std::shared_ptr<KeptOutputs> kept,
    const std::function<absl::StatusOr<Value>(Context& context, const Value& x)>& body) {
  Tensor data;
  {
    Tape dropped;
    dropped.set_recording(false);
    const auto scope = context.UseTape(dropped);
    const auto keeps = context.UseKeptOutputs(kept.get());
    const auto unread = context.UseUnreadResult(&module);
    ZEROTH_ASSIGN_OR_RETURN(const Value first, body(context, x));
    data = first.data;
  }
  Value result = context.MakeValue(std::move(data));
  if (kept != nullptr) kept->BeginRecompute();
  context.tape().Record([&context, &module, x, node = result.node, body, kept = std::move(kept),
                         draws = context.draws()]() -> absl::Status {
    if (!node->grad.defined()) return absl::OkStatus();
    Tape again;
    again.Record([] { return absl::OkStatus(); });  // the body may have nothing to record
    const auto scope = context.UseTape(again);
    const auto same = context.UseDraws(draws);  // later forwards may have set other draws
    const auto takes = context.UseKeptOutputs(kept.get());
    const auto unread = context.UseUnreadResult(&module);
    ZEROTH_ASSIGN_OR_RETURN(const Value second, body(context, x));
    if (kept != nullptr) ZEROTH_RETURN_IF_ERROR(kept->ExpectAllTaken());
    if (second.node != nullptr && second.node->is_end) {
      // The fused loss computes its gradients in forward, so backward cannot recompute it.
      return FailedPrecondition("module '", module.name(),
                                "' ends in LinearCrossEntropyOp, and is to be computed again; "
                                "compute the loss outside of it, or keep what it computes");
    }
    if (second.node != x.node) {
      second.node->grad = std::move(node->grad);
    } else if (x.node != nullptr) {  // the body has returned its input
      ZEROTH_RETURN_IF_ERROR(AddGradient(context, *x.node, std::move(node->grad)));
    }
    return again.Backward();
  });
  return result;
}

}  // namespace

std::vector<Parameter*> Module::Parameters() const {
  std::vector<Parameter*> all;
  for (const Module* module : ModulesOf<const Module>(*this)) {
    for (Parameter* parameter : module->own_parameters()) {
      if (std::find(all.begin(), all.end(), parameter) == all.end()) all.push_back(parameter);
    }
  }
  return all;
}

int64_t Module::ParameterCount() const {
  int64_t count = 0;
  for (const Parameter* parameter : Parameters()) count += parameter->global_numel();
  return count;
}

Parameter* Module::AddParameter(absl::string_view suffix, Shape shape, Initializer initializer,
                                DType dtype) {
  owned_parameters_.push_back(
      std::make_unique<Parameter>(Scoped(suffix), std::move(shape), initializer, dtype));
  own_parameters_.push_back(owned_parameters_.back().get());
  return own_parameters_.back();
}

std::string Module::Scoped(absl::string_view suffix) const {
  return name_.empty() ? std::string(suffix) : absl::StrCat(name_, ".", suffix);
}

absl::Status Module::EnterForward(Context& context, bool recording) {
  ZEROTH_RETURN_IF_ERROR(hooks_->BeforeForward(recording));
  if (recording) {
    context.tape().RecordCleanup([hooks = hooks_] { hooks->AfterError(); });
    // Played last: backward runs from the end of the forward to its beginning.
    context.tape().Record([hooks = hooks_] { return hooks->AfterBackward(); });
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Module::HookedOne(Context& context, const Value& x, const OneToOne& body) {
  const Recomputes recomputes = context.recording() ? recomputes_ : Recomputes::kNothing;
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    ZEROTH_ASSIGN_OR_RETURN(const Value in, CastInput(context, x));
    const auto compute = [&]() -> absl::StatusOr<Value> {
      if (recomputes == Recomputes::kNothing) return body(context, in);
      std::shared_ptr<KeptOutputs> kept;
      if (recomputes != Recomputes::kAll) kept = std::make_shared<KeptOutputs>(recomputes);
      return Recomputed(context, *this, in, std::move(kept), body);
    };
    ZEROTH_ASSIGN_OR_RETURN(const Value out, compute());
    return CastOutput(context, out);
  });
}

absl::StatusOr<Value> Module::CastInput(Context& context, const Value& x) const {
  const auto dtype = hooks_ == nullptr ? std::nullopt : hooks_->input_dtype();
  return dtype.has_value() && x.data.defined() ? CastOp(context, x, *dtype) : x;
}

absl::StatusOr<Value> Module::CastOutput(Context& context, const Value& x) const {
  const auto dtype = hooks_ == nullptr ? std::nullopt : hooks_->output_dtype();
  return dtype.has_value() && x.data.defined() ? CastOp(context, x, *dtype) : x;
}

absl::Status Module::LeaveForward(Context& context, bool recording) {
  ZEROTH_RETURN_IF_ERROR(hooks_->AfterForward(recording));
  if (recording) context.tape().Record([hooks = hooks_] { return hooks->BeforeBackward(); });
  return absl::OkStatus();
}

}  // namespace zeroth
