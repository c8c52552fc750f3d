// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/norm.h"

namespace zeroth {

enum class NormKind : uint8_t {
  kLayer,       // parameters weight and bias
  kRms,         // by root mean square; parameter weight
  kRmsPlusOne,  // the same, scaled by 1 + weight
};

// Normalisation over the last dimension. Parameters [dim].
class Norm : public Module {
 public:
  Norm(std::string name, NormKind kind, int64_t dim, double eps);

  // x [.., dim] → the same shape. `of_heads`: see NormOp.
  absl::StatusOr<Value> Forward(Context& context, const Value& x, bool of_heads = false);
  // Normalises x + residual and gives the sum too.
  absl::StatusOr<NormResult> ForwardResidual(Context& context, const Value& x,
                                             const Value& residual, bool of_heads = false);
  Role role() const override { return Role::kNorm; }

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  float eps_;
  float offset_;  // added to the weight
};

}  // namespace zeroth
