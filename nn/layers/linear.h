// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/linear.h"

namespace zeroth {

struct LinearOptions {
  int64_t in = 0;
  // The name of each projection after the module's, and its width. A plain layer has one projection
  // with an empty name; queries, keys and values that are stored apart are three.
  struct Projection {
    std::string name;
    int64_t out = 0;
    // Not kNone: the weight is frozen and quantised. Only for kOutIn.
    PackedFormat packed = PackedFormat::kNone;
  };
  std::vector<Projection> projections;
  bool bias = true;
  WeightLayout layout = WeightLayout::kOutIn;
  float init_std = 0.02f;
};

// A module that may keep some of its weights packed: instead of a parameter PREFIX.weight it has
// PREFIX.weight_FORMAT, and unless the format has none PREFIX.weight_FORMAT_scales. A sharding
// fills them by a PackingReader, and Sharding::Initialize makes zeros.
class PackingModule : public Module {
 public:
  using Module::Module;

  // The packed weights, in order.
  absl::Span<const std::unique_ptr<PackedWeight>> packed() const { return packed_; }

 protected:
  // Declares the weight `suffix` [out, in] in a format that is not kNone.
  const PackedWeight* AddPackedWeight(const std::string& suffix, const Shape& shape,
                                      Initializer initializer, PackedFormat format);

 private:
  // PackedWeight::weight: in no unit, so not among the module's parameters.
  std::vector<std::unique_ptr<Parameter>> unpacked_;
  std::vector<std::unique_ptr<PackedWeight>> packed_;
};

// x [.., in] → [.., sum of out]. Parameters [projection.]weight, which may be packed, and
// [projection.]bias.
class Linear : public PackingModule {
 public:
  Linear(std::string name, const LinearOptions& options);
  // A plain layer with a bias.
  Linear(std::string name, int64_t in, int64_t out)
      : Linear(std::move(name), LinearOptions{in, {{"", out}}}) {}

  // LinearOp says which `activation` may be fused.
  virtual absl::StatusOr<Value> Forward(Context& context, const Value& x,
                                        Activation activation = Activation::kNone);

  // One for each projection, in order.
  const std::vector<LinearPart>& parts() const { return parts_; }
  WeightLayout layout() const { return layout_; }

  // Makes the layer multiply in 8-bit floats (Fp8LinearOp) if its sizes allow it (FitsFp8). Returns
  // whether it does.
  bool UseFp8();
  bool uses_fp8() const { return uses_fp8_; }

 protected:
  // Multiplies x by `parts`, adds their biases, and applies `activation`. `parts` are the layer's
  // parts, and the caller may have removed their biases. x must have the dtype that the hooks
  // request. `is_read` is that of LinearOp.
  absl::StatusOr<Value> Matmul(Context& context, const Value& x,
                               const std::vector<LinearPart>& parts, Activation activation,
                               bool is_read = true);

 private:
  std::vector<LinearPart> parts_;
  WeightLayout layout_;
  bool uses_fp8_ = false;
};

// The packed weights of a module and its descendants, in order of declaration.
std::vector<const PackedWeight*> PackedWeights(const Module& module);

// Returns the parameters of a module and its descendants that files store: each packed weight
// itself, not its codes and scales.
std::vector<const Parameter*> StoredParameters(const Module& module);

// InvalidArgument or Unimplemented names a weight that its format does not fit.
absl::Status ValidatePackedWeights(const Module& module);

// Divides each packed weight as DivideParameters has divided its codes.
absl::Status DividePackedWeights(const Module& module);

// Names of linear layers, in order of declaration.
struct Fp8Layers {
  std::vector<std::string> in_fp8;
  std::vector<std::string> others;
};
// Returns the linear layers of `module` and its descendants. Embeddings and the head are not among
// them and never compute in fp8, as in torchao and TransformerEngine.
Fp8Layers FindFp8Layers(const Module& module);

// Makes the layers whose sizes allow it multiply in fp8 (Linear::UseFp8). InvalidArgument if there
// is none.
absl::Status UseFp8(Module& module);

}  // namespace zeroth
