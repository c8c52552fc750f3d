// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/logit_transform.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

absl::Status CheckOneTransform(float cap, const LogitTransform* transform) {
  if (cap <= 0 || transform == nullptr) return absl::OkStatus();
  return Unimplemented("logits: the model has LogitCap() = ", cap,
                       " and a logit_transform(), expected one of them; apply the cap in the "
                       "transform, and return 0 from LogitCap()");
}

absl::Status TransformLogits(Context& context, const Tensor& logits, float cap,
                             const LogitTransform* transform, const Tensor& out) {
  ZEROTH_RETURN_IF_ERROR(CheckOneTransform(cap, transform));
  if (transform != nullptr) return transform->Forward(context, logits, out);
  if (cap > 0) {
    return kernels::Basic(context.kernels(),
                          {.op = BasicOp::kSoftCap, .a = logits, .out = out, .scalar = cap});
  }
  return absl::OkStatus();
}

}  // namespace zeroth
