// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

class Context;

// An elementwise function f of a model's logits (LanguageModel::logit_transform). Build it from
// kernels::Basic calls, which run on every device; scratch comes from Context::Empty. Thread-safe,
// as ranks may share one.
//
// Strictly elementwise: a call may hold any subset of rows and vocabulary columns, plus zero
// columns as padding. f and its slope must be finite at every finite logit, 0 included. Each call
// must enqueue the same operations with the same scalars, because recorded steps (--cuda_graphs)
// repeat them. A transform trains no parameters.
class LogitTransform {
 public:
  virtual ~LogitTransform() = default;

  // out = f(logits), contiguous fp32 [.., columns]. `out` may be `logits`.
  virtual absl::Status Forward(Context& context, const Tensor& logits, const Tensor& out) const = 0;
  // In place: gradients *= f'(logits), contiguous fp32 of one shape. `logits` are Forward's; they
  // may be used as scratch.
  virtual absl::Status Backward(Context& context, const Tensor& logits,
                                const Tensor& gradients) const = 0;
};

// Unimplemented, which says what to do, if `cap` > 0 and `transform` is not null.
absl::Status CheckOneTransform(float cap, const LogitTransform* transform);

// Applies `transform` if not null, or BasicOp::kSoftCap if `cap` > 0, to contiguous fp32 logits of
// any shape. Fails as CheckOneTransform. Writes to `out`, which must be `logits` if neither is.
absl::Status TransformLogits(Context& context, const Tensor& logits, float cap,
                             const LogitTransform* transform, const Tensor& out);

}  // namespace zeroth
