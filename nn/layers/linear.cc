// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/linear.h"

#include <map>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/ops/fp8_linear.h"
#include "zeroth/nn/ops/pointwise.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {

const PackedWeight* PackingModule::AddPackedWeight(const std::string& suffix, const Shape& shape,
                                                   Initializer initializer, PackedFormat format) {
  PackedWeight packed{.shape = {format, shape.dim(0), shape.dim(1)}};
  packed.weight =
      unpacked_.emplace_back(std::make_unique<Parameter>(Scoped(suffix), shape, initializer)).get();
  packed.weight->set_requires_grad(false);
  const std::string bytes = absl::StrCat(suffix, "_", PackedFormatName(format));
  packed.codes = AddParameter(bytes, Shape({shape.dim(0), packed.shape.CodeBytes(shape.dim(1))}),
                              Initializer::Zeros(), DType::kUInt8);
  packed.codes->set_requires_grad(false);
  if (packed.shape.scales() > 0) {
    packed.scales = AddParameter(bytes + "_scales", Shape({packed.shape.scale_bytes()}),
                                 Initializer::Zeros(), DType::kUInt8);
    packed.scales->set_requires_grad(false);
  }
  return packed_.emplace_back(std::make_unique<PackedWeight>(packed)).get();
}

Linear::Linear(std::string name, const LinearOptions& options)
    : PackingModule(std::move(name)), layout_(options.layout) {
  for (const LinearOptions::Projection& projection : options.projections) {
    const std::string prefix = projection.name.empty() ? "" : projection.name + ".";
    const Shape shape = layout_ == WeightLayout::kInOut ? Shape({options.in, projection.out})
                                                        : Shape({projection.out, options.in});
    const Initializer initializer = Initializer::Normal(options.init_std);
    LinearPart part;
    if (projection.packed == PackedFormat::kNone) {
      part.weight = AddParameter(prefix + "weight", shape, initializer);
    } else {
      part.packed = AddPackedWeight(prefix + "weight", shape, initializer, projection.packed);
      part.weight = part.packed->weight;
    }
    part.weight->set_matrix({layout_ == WeightLayout::kInOut});
    if (options.bias)
      part.bias = AddParameter(prefix + "bias", Shape({projection.out}), Initializer::Zeros());
    parts_.push_back(part);
  }
}

absl::StatusOr<Value> Linear::Forward(Context& context, const Value& x, Activation activation) {
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    ZEROTH_ASSIGN_OR_RETURN(const Value in, CastInput(context, x));
    const bool is_read = context.unread_result() != this || activation != Activation::kNone;
    ZEROTH_ASSIGN_OR_RETURN(const Value out, Matmul(context, in, parts_, activation, is_read));
    return CastOutput(context, out);
  });
}

bool Linear::UseFp8() {
  uses_fp8_ = packed().empty() && FitsFp8(parts_, layout_);
  return uses_fp8_;
}

absl::StatusOr<Value> Linear::Matmul(Context& context, const Value& x,
                                     const std::vector<LinearPart>& parts, Activation activation,
                                     bool is_read) {
  // Blocks of deterministic pieces do not support a fused activation.
  const TensorRanks* const ranks = context.tensor_ranks();
  const bool in_blocks = ranks != nullptr && ranks->options().deterministic > 0;
  if (in_blocks && activation == Activation::kGelu) {
    ZEROTH_ASSIGN_OR_RETURN(const Value y, LinearOp(context, x, parts, layout_));
    return GeluOp(context, y);
  }
  if (!uses_fp8_) return LinearOp(context, x, parts, layout_, activation, is_read);
  if (activation == Activation::kSilu) {
    return Unimplemented("layer '", name(),
                         "' computes in fp8, which does not support a fused SiLU");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Value y, Fp8LinearOp(context, x, parts, layout_, is_read));
  return activation == Activation::kGelu ? GeluOp(context, y) : y;
}

std::vector<const PackedWeight*> PackedWeights(const Module& module) {
  std::vector<const PackedWeight*> weights;
  for (const PackingModule* part : ModulesOf<const PackingModule>(module)) {
    for (const auto& packed : part->packed()) weights.push_back(packed.get());
  }
  return weights;
}

std::vector<const Parameter*> StoredParameters(const Module& module) {
  std::map<const Parameter*, const Parameter*> stored;  // nullptr: not stored
  for (const PackedWeight* packed : PackedWeights(module)) {
    stored[packed->codes] = packed->weight;
    if (packed->scales != nullptr) stored[packed->scales] = nullptr;
  }
  std::vector<const Parameter*> parameters;
  for (const Parameter* parameter : module.Parameters()) {
    const auto found = stored.find(parameter);
    if (found != stored.end()) parameter = found->second;
    if (parameter != nullptr) parameters.push_back(parameter);
  }
  return parameters;
}

absl::Status ValidatePackedWeights(const Module& module) {
  for (const PackedWeight* packed : PackedWeights(module)) {
    if (packed->weight->matrix().outputs_are_columns) {
      return Unimplemented("weight '", packed->weight->name(), "' is stored as [in, out], which ",
                           PackedFormatName(packed->shape.format),
                           " does not pack; expected a model other than GPT-2");
    }
    ZEROTH_RETURN_IF_ERROR_WITH(ValidatePackedShape(packed->shape), packed->weight->name());
  }
  return absl::OkStatus();
}

absl::Status DividePackedWeights(const Module& module) {
  for (const PackedWeight* packed : PackedWeights(module)) {
    if (!packed->codes->part().has_value()) continue;
    ZEROTH_RETURN_IF_ERROR(packed->weight->Divide(*packed->codes->part()));
  }
  return absl::OkStatus();
}

Fp8Layers FindFp8Layers(const Module& module) {
  Fp8Layers layers;
  for (const Linear* linear : ModulesOf<const Linear>(module)) {
    (linear->uses_fp8() ? layers.in_fp8 : layers.others).push_back(linear->name());
  }
  return layers;
}

absl::Status UseFp8(Module& module) {
  const std::vector<Linear*> layers = ModulesOf<Linear>(module);
  int used = 0;
  for (Linear* layer : layers) used += layer->UseFp8() ? 1 : 0;
  if (used > 0) return absl::OkStatus();
  return InvalidArgument("fp8: none of the model's ", layers.size(),
                         " linear layers has sizes in steps of 16, which fp8 matmuls need");
}

}  // namespace zeroth
