// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Activation checkpointing (Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost"):
// part of a model keeps only its input, and is computed again when its backward comes.

#ifndef ZEROTH_NN_RECOMPUTE_H_
#define ZEROTH_NN_RECOMPUTE_H_

#include <functional>

#include "absl/status/statusor.h"

#include "zeroth/nn/tape.h"

namespace zeroth {

// What `body` makes of `x`, recording only how to do so again. `body` is kept until then: it must
// hold nothing that a caller's stack owns, and give the same result each time.
absl::StatusOr<Value> Recomputed(
    Context& context, const Value& x,
    const std::function<absl::StatusOr<Value>(Context& context, const Value& x)>& body);

}  // namespace zeroth

#endif  // ZEROTH_NN_RECOMPUTE_H_
