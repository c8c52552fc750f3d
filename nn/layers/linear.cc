// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/linear.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

Linear::Linear(std::string name, const LinearOptions& options)
    : Module(std::move(name)), layout_(options.layout) {
  for (const LinearOptions::Projection& projection : options.projections) {
    const std::string prefix = projection.name.empty() ? "" : projection.name + ".";
    const Shape shape = layout_ == WeightLayout::kInOut ? Shape({options.in, projection.out})
                                                        : Shape({projection.out, options.in});
    LinearPart part;
    part.weight = AddParameter(prefix + "weight", shape, Initializer::Normal(options.init_std));
    if (options.bias)
      part.bias = AddParameter(prefix + "bias", Shape({projection.out}), Initializer::Zeros());
    parts_.push_back(part);
  }
}

absl::StatusOr<Value> Linear::Forward(Context& context, const Value& x, Activation activation) {
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    ZEROTH_ASSIGN_OR_RETURN(const Value in, CastInput(context, x));
    ZEROTH_ASSIGN_OR_RETURN(const Value out, LinearOp(context, in, parts_, layout_, activation));
    return CastOutput(context, out);
  });
}

}  // namespace zeroth
