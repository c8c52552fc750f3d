// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

class Context;

// An elementwise function of a model's logits (LanguageModel::logit_transform), such as a scale.
// Compose it of kernels::Basic, so that it runs on every device. An element's result may depend
// neither on its place nor on the shape: calls get any rows and any part of the vocabulary, and
// columns of zeros that pad it. Scratch comes from Context::Empty. Thread-safe, as ranks may share
// one.
class LogitTransform {
 public:
  virtual ~LogitTransform() = default;

  // Replaces `logits`, contiguous fp32 [.., columns].
  virtual absl::Status Forward(Context& context, const Tensor& logits) const = 0;
  // Multiplies `gradients` by the slopes at `logits`, which are those before Forward and may be
  // overwritten. Both are contiguous fp32, of one shape.
  virtual absl::Status Backward(Context& context, const Tensor& logits,
                                const Tensor& gradients) const = 0;
};

// Replaces `logits`, contiguous fp32 of any shape, by `transform` unless it is null, or by
// BasicOp::kSoftCap if `cap` is above 0. Unimplemented for both.
absl::Status TransformLogits(Context& context, const Tensor& logits, float cap,
                             const LogitTransform* transform);

}  // namespace zeroth
