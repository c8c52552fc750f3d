// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_LAYERS_NORM_H_
#define ZEROTH_NN_LAYERS_NORM_H_

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/norm.h"

namespace zeroth {

// Layer normalisation over the last dimension. Parameters weight and bias [dim].
class LayerNorm : public Module {
 public:
  LayerNorm(std::string name, int64_t dim, double eps);

  // x [.., dim] → the same shape.
  absl::StatusOr<Value> Forward(Context& context, const Value& x);
  // Normalises x + residual and gives the sum too.
  absl::StatusOr<NormResult> ForwardResidual(Context& context, const Value& x,
                                             const Value& residual);
  Role role() const override { return Role::kNorm; }

 private:
  Parameter* weight_;
  Parameter* bias_;
  float eps_;
};

// Normalisation by root mean square over the last dimension. Parameter weight [dim].
class RMSNorm : public Module {
 public:
  RMSNorm(std::string name, int64_t dim, double eps);

  absl::StatusOr<Value> Forward(Context& context, const Value& x);
  absl::StatusOr<NormResult> ForwardResidual(Context& context, const Value& x,
                                             const Value& residual);
  Role role() const override { return Role::kNorm; }

 private:
  Parameter* weight_;
  float eps_;
};

}  // namespace zeroth

#endif  // ZEROTH_NN_LAYERS_NORM_H_
