// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/tape.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

absl::Status ExpectNoEnd(const GradientNode& node) {
  if (!node.is_end) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "an operation follows a loss whose gradients were computed together with it "
      "(LinearCrossEntropyOp), and would be left out of them; scale it by Context::set_loss_scale, "
      "or compute the loss from other operations");
}

}  // namespace

absl::Status Tape::Backward() {
  if (entries_.empty()) {
    return absl::FailedPreconditionError(
        "backward: nothing was recorded; run a forward with recording on first");
  }
  while (!entries_.empty()) {
    const Entry entry = std::move(entries_.back());
    entries_.pop_back();
    if (absl::Status status = entry(); !status.ok()) {
      Clear();
      return Annotate(status, "backward");
    }
  }
  cleanups_.clear();
  ends_ = 0;
  return absl::OkStatus();
}

void Tape::Clear() {
  // Entries go first: they hold activations and gradients, which cleanups may expect to be freed.
  entries_.clear();
  ends_ = 0;
  while (!cleanups_.empty()) {
    const std::function<void()> cleanup = std::move(cleanups_.back());
    cleanups_.pop_back();
    cleanup();
  }
}

absl::StatusOr<Tensor> Context::Empty(Shape shape, DType dtype) {
  return Tensor::Empty(device_, std::move(shape), dtype, MemoryCategory::kActivations);
}

absl::Status Context::CheckCacheUse() const {
  if (cache_ != nullptr && !recording() && !document_starts_.defined()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "cached states: expected a cache, no packed documents, and no backward to come");
}

Value Context::MakeValue(Tensor data) {
  Value value;
  value.data = std::move(data);
  if (recording()) value.node = std::make_shared<GradientNode>();
  return value;
}

Value Context::MakeEnd(Tensor data) {
  Value value = MakeValue(std::move(data));
  if (value.node == nullptr) return value;
  value.node->is_end = true;
  tape_->RecordEnd();
  return value;
}

void RecordBackward(Context& context, const Value& result,
                    std::function<absl::Status(const Tensor& dresult)> backward) {
  if (!context.recording()) return;
  context.tape().Record([node = result.node, backward = std::move(backward)]() -> absl::Status {
    const Tensor gradient = std::exchange(node->grad, Tensor());
    return gradient.defined() ? backward(gradient) : absl::OkStatus();
  });
}

absl::StatusOr<NodeSlot> TakeGradient(Context& context, GradientNode& node,
                                      const Tensor& activation) {
  return TakeGradient(context, node, activation.shape(), activation.dtype());
}

absl::StatusOr<NodeSlot> TakeGradient(Context& context, GradientNode& node, const Shape& shape,
                                      DType dtype) {
  ZEROTH_RETURN_IF_ERROR(ExpectNoEnd(node));
  NodeSlot slot;
  slot.accumulate = node.grad.defined();
  // Another node may hold the same tensor as its gradient, as both inputs of a sum do: then write
  // to a copy.
  if (slot.accumulate && node.grad.buffer().use_count() > 1) {
    ZEROTH_ASSIGN_OR_RETURN(Tensor own, context.Empty(shape, dtype));
    ZEROTH_RETURN_IF_ERROR(context.device().Copy(own.raw_data(), node.grad.raw_data(), own.bytes(),
                                                 context.device().compute_stream()));
    node.grad = std::move(own);
  } else if (!slot.accumulate) {
    ZEROTH_ASSIGN_OR_RETURN(node.grad, context.Empty(shape, dtype));
  }
  slot.tensor = node.grad;
  return slot;
}

absl::Status AddGradient(Context& context, GradientNode& node, Tensor contribution) {
  ZEROTH_RETURN_IF_ERROR(ExpectNoEnd(node));
  if (!node.grad.defined()) {
    node.grad = std::move(contribution);
    return absl::OkStatus();
  }
  ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, node, contribution));
  return kernels::Add(context.kernels(), slot.tensor, contribution, slot.tensor);
}

absl::Status Backward(Context& context, const Value& loss) {
  if (loss.node == nullptr) {
    return absl::FailedPreconditionError(
        "backward: the loss was not recorded; compute it with recording on, from something that "
        "takes a gradient");
  }
  if (loss.data.numel() != 1) {
    return InvalidArgument("backward: the loss is ", loss.data.shape().ToString(),
                           ", expected one element");
  }
  if (context.tape().ends() > (loss.node->is_end ? 1 : 0)) {
    // Clear makes sharded modules drop their gradients, which include the other loss's.
    context.tape().Clear();
    return FailedPrecondition(
        "backward: ",
        loss.node->is_end ? "another loss was recorded"
                          : "this loss follows a loss, or stands beside one,",
        " whose gradients were computed together with it (LinearCrossEntropyOp), so they are among "
        "this one's; compute losses that are not trained under NoGradient, give each of several "
        "trained losses a separate micro-batch, and scale one by Context::set_loss_scale");
  }
  if (!loss.node->is_end) {
    ZEROTH_ASSIGN_OR_RETURN(loss.node->grad, context.EmptyLike(loss.data));
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(),
        {.op = BasicOp::kFill, .out = loss.node->grad, .scalar = context.loss_scale()}));
  }
  return context.tape().Backward();
}

absl::StatusOr<Tensor> CopyOf(Context& context, const Matrix& matrix) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor copy,
                          context.Empty(Shape({matrix.rows, matrix.cols}), matrix.tensor.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), {.a = matrix, .out = copy}));
  return copy;
}

absl::StatusOr<Tensor> CastTo(Context& context, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  ZEROTH_ASSIGN_OR_RETURN(Tensor cast, context.Empty(x.shape(), dtype));
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(context.kernels(), x, cast));
  return cast;
}

absl::StatusOr<Tensor> FullValues(const Parameter& parameter) {
  if (parameter.data().defined()) return parameter.data();
  return FailedPrecondition("parameter '", parameter.name(),
                            "' is not gathered: it was used outside of its unit's forward or "
                            "backward; wrap it together with the module that uses it");
}

}  // namespace zeroth
