// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/recompute.h"

#include <memory>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<Value> Recomputed(
    Context& context, const Value& x,
    const std::function<absl::StatusOr<Value>(Context& context, const Value& x)>& body) {
  Tensor data;
  {
    Tape dropped;
    dropped.set_recording(false);
    const TapeScope scope(context, dropped);
    ZEROTH_ASSIGN_OR_RETURN(const Value first, body(context, x));
    data = first.data;
  }
  Value result = context.MakeValue(std::move(data));
  context.tape().Record([&context, x, node = result.node, body]() -> absl::Status {
    if (!node->grad.defined()) return absl::OkStatus();
    Tape again;
    const TapeScope scope(context, again);
    ZEROTH_ASSIGN_OR_RETURN(const Value second, body(context, x));
    second.node->grad = std::move(node->grad);
    return again.Backward();
  });
  return result;
}

}  // namespace zeroth
