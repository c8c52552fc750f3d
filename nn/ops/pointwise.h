// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Casts x to another type, rounded to nearest even, and its gradient back. Returns x if it has that
// type.
absl::StatusOr<Value> CastOp(Context& context, const Value& x, DType dtype);
// a + b, same shapes. If `is_read` is false, nothing reads the result's values: it shares the data
// of a.
absl::StatusOr<Value> AddOp(Context& context, const Value& a, const Value& b, bool is_read = true);
// Gaussian error linear unit, tanh approximation.
absl::StatusOr<Value> GeluOp(Context& context, const Value& x);
// silu(gate) * up of [.., gate | up], [.., 2 * hidden] → [.., hidden] (Shazeer, "GLU variants
// improve transformer", 2020), or with a `limit` above 0 that of kernels::SwiGlu.
absl::StatusOr<Value> SwiGluOp(Context& context, const Value& gate_up, float limit = 0);

}  // namespace zeroth
