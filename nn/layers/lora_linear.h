// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Low-rank adaptation of linear layers (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
// Models", 2021): y = x W + b + scale * (x A) B, where only A and B are trained.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/low_rank.h"
#include "zeroth/nn/ops/magnitude.h"

namespace zeroth {

struct LoraOptions {
  int64_t rank = 0;  // of A and B; 0: no adapters
  double alpha = 16;
  // Rank-stabilized LoRA (Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with
  // LoRA", 2023): the scale is alpha / sqrt(rank) instead of alpha / rank.
  bool rslora = false;
  // DoRA (Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024): the adapted weight is
  // scaled such that the weights of each output have a trained norm. Not with dropout.
  bool dora = false;
  // While training, each adapter computes with a dropout of its input: each element is 0 with this
  // probability, in [0, 1). See DropoutOp for what decides which ones.
  double dropout = 0;
  // The last parts of the names of adapted projections, as in "c_attn" or "self_attn.q_proj".
  // Empty: every linear layer of every block, as in QLoRA (Dettmers et al., 2023).
  std::vector<std::string> targets;
  // Without targets: the experts of mixtures too, each with its own adapters.
  bool experts = true;
  // The ends of the names of modules whose parameters are trained in full beside the adapters, as
  // "embed_tokens" or "lm_head". Only layers match, not modules that contain others.
  std::vector<std::string> modules_to_save;

  // Not kNone: quantises the frozen weights of every linear layer of every block, as QLoRA does,
  // and of every expert. Embeddings, norms, biases, routers and the head stay as they are.
  PackedFormat base_format = PackedFormat::kNone;
  // Overrides base_format for the weights named here, as "model.layers.0.mlp.up_proj.weight", with
  // the formats of the model's file.
  std::map<std::string, PackedFormat, std::less<>> base_formats;

  bool enabled() const { return rank > 0; }
  bool packs() const { return base_format != PackedFormat::kNone || !base_formats.empty(); }
  double scale() const;
  // True if the projection of this name, as in "model.layers.0.self_attn.q_proj", is adapted.
  bool Adapts(absl::string_view projection) const;
  // The format of the frozen weight of this name, as in "model.layers.0.self_attn.q_proj.weight".
  PackedFormat FormatOf(absl::string_view weight) const;
};

// InvalidArgument gives rank, alpha and dropout if one of them is out of its range, or says that a
// base in few bits needs adapters; Unimplemented for options that do not work together.
absl::Status ValidateLoraOptions(const LoraOptions& options);

// An adapter: the layer computes with weight + options->scale() * (a b), or (b a) if weights are
// [out, in]; with a magnitude, each output's weights are then scaled to this norm.
struct LoraAdapter {
  // The name of the adapted projection, as in "model.layers.0.self_attn.q_proj".
  std::string layer() const;

  Parameter* weight = nullptr;     // kInOut: [in, out]; kOutIn: [out, in]
  Parameter* a = nullptr;          // kInOut: [in, rank]; kOutIn: [rank, in]
  Parameter* b = nullptr;          // kInOut: [rank, out]; kOutIn: [out, rank]
  Parameter* magnitude = nullptr;  // [out]; nullptr without options->dora
  WeightLayout layout = WeightLayout::kOutIn;
  const LoraOptions* options = nullptr;  // owned by the layer
  // The fraction of the tokens that it computes: below 1 for one of several experts.
  double share = 1;
};

// A module that may have adapters.
class AdaptedModule {
 public:
  virtual ~AdaptedModule() = default;
  virtual const std::vector<LoraAdapter>& adapters() const = 0;
  // The names of the projections that adapters may be on, without those of Linear::parts().
  virtual std::vector<std::string> ExtraProjections() const { return {}; }
  // An error if the module does not have what `options` selects.
  virtual absl::Status Validate(const LoraOptions& /*options*/) const { return absl::OkStatus(); }
};

// The initial values of an adapter's A for `in` inputs: normal, with the variance 1 / (3 in) of
// PEFT's uniform values.
Initializer InitializerOfA(int64_t in);

// A linear layer with adapters on some of its projections. Parameters are [projection.]lora_A,
// see InitializerOfA, and [projection.]lora_B, zeros, so
// that training starts from the layer without adapters. The same holds with
// [projection.]lora_magnitude_vector once InitialMagnitudes has computed its values; its
// initializer makes zeros. A layer with magnitudes and a bias rounds once more than one without.
// Magnitudes keep fp32, so that rounding neither moves the layer nor holds them. Adapters multiply
// in the type of the activations, even if the layer itself multiplies in fp8. The caller freezes
// the weights: see FreezeAllButAdapters.
class LoraLinear : public Linear, public AdaptedModule {
 public:
  // `lora` must be enabled.
  LoraLinear(std::string name, const LinearOptions& options, const LoraOptions& lora);

  // Applies a GELU in a separate pass, after the adapters; Unimplemented for SiLU.
  absl::StatusOr<Value> Forward(Context& context, const Value& x,
                                Activation activation = Activation::kNone) override;

  const std::vector<LoraAdapter>& adapters() const override { return adapters_; }

 private:
  // The adapters, with the columns of this rank's part of each projection.
  std::vector<LowRankPart> LowRankParts() const;
  // The adapters with their magnitudes.
  std::vector<MagnitudePart> MagnitudeParts() const;

  const LoraOptions lora_;
  std::vector<LoraAdapter> adapters_;
  // The layer's parts. Those with a magnitude lack their bias, since a magnitude must not scale it.
  std::vector<LinearPart> matmul_parts_;
};

// Makes a LoraLinear if `lora` adapts any of the projections, otherwise a Linear, both with weights
// in the formats that `lora` selects. Models build their linear layers with it.
std::unique_ptr<Linear> BuildLinear(std::string name, LinearOptions options,
                                    const LoraOptions& lora);

// The adapters of a module and its descendants, in order of declaration.
std::vector<LoraAdapter> LoraAdapters(const Module& module);

// Sets `out` to the adapter's initial magnitudes from output `begin` on: the norm of each output's
// weights. `read` returns elements of the undivided weight, a block at a time.
absl::Status InitialMagnitudes(
    const LoraAdapter& adapter, int64_t begin, absl::Span<float> out,
    const std::function<absl::Status(int64_t begin, absl::Span<float> values)>& read);

// Returns the parameters that a model with adapters trains in full (LoraOptions::modules_to_save).
std::vector<Parameter*> SavedParameters(const Module& module);

// Freezes every parameter of `model` except for its adapters and options.modules_to_save. Call it
// before the model is sharded. Errors of ValidatePackedWeights. InvalidArgument names a target that
// matches no projection, or a module to save that matches no module, and lists the names that the
// model has; or a module to save that has an adapter. Unimplemented if the model has no adapters.
absl::Status FreezeAllButAdapters(const Module& model, const LoraOptions& options);

}  // namespace zeroth
