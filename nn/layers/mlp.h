// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/basic.h"

namespace zeroth {

// The half of a block that follows attention.
class MlpLayer : public Module {
 public:
  using Module::Module;
  // x [.., dim] → [.., dim].
  virtual absl::StatusOr<Value> Forward(Context& context, const Value& x) = 0;
  Role role() const override { return Role::kMlp; }
};

// x [.., dim] → [.., dim]: out(activation(in(x))). If it is gated, `in` makes gate | up side by
// side, and the result is out(activation(gate) * up).
class Mlp : public MlpLayer {
 public:
  Mlp(std::string name, ActivationFunction activation, bool gated, std::unique_ptr<Linear> in,
      std::unique_ptr<Linear> out);

  absl::StatusOr<Value> Forward(Context& context, const Value& x) override;

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x);
  absl::StatusOr<Value> Hidden(Context& context, const Value& x);

  ActivationFunction activation_;
  bool gated_;
  Linear* in_;
  Linear* out_;
};

}  // namespace zeroth
