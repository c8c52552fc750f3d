// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_LANGUAGE_MODEL_H_
#define ZEROTH_NN_LANGUAGE_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/module.h"

namespace zeroth {

// How a model is built, beyond what its configuration says.
struct ModelOptions {
  // With a rank, linear layers have adapters and everything else is frozen.
  LoraOptions lora;
  // The linear layers of the blocks multiply in 8-bit floats where their sizes allow it; see
  // Fp8LinearOp and FindFp8Layers.
  bool fp8 = false;
};

// A causal language model: tokens in, next-token loss or logits out. A family (GPT-2, Llama) is a
// folder that registers itself under its Hugging Face model_type: a table of decoder_family.h, or a
// class of its own.
class LanguageModel : public Module {
 public:
  using Module::Module;

  // Mean next-token cross-entropy, [1]. tokens and targets int32 [batch, seq], targets[b, s] being
  // the token that follows tokens[b, s]. While recording, follow with context.tape().Backward().
  absl::StatusOr<Value> Loss(Context& context, const Tensor& tokens, const Tensor& targets);
  // Logits fp32 [batch, seq - from, vocab] of the positions from `from` on; from > 0 takes a batch
  // of 1. Records nothing.
  absl::StatusOr<Tensor> Logits(Context& context, const Tensor& tokens, int64_t from = 0);

  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_seq_len() const = 0;
  // Floating-point operations of forward and backward for one token in a sequence of `seq`: 6 for
  // each weight that it is multiplied with (4 for one that LoRA leaves frozen, whose gradient
  // nobody computes), and causal attention. What utilisation is measured by.
  double FlopsPerToken(int64_t seq) const;
  // The Hugging Face configuration that describes this model, for config.json.
  virtual nlohmann::json HfConfig() const = 0;

 protected:
  // Final hidden states [batch, seq, dim], normalised.
  virtual absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) = 0;
  // [vocab, dim].
  virtual Parameter& head() = 0;
  // Weights that every token is multiplied with, the head included.
  virtual int64_t MatmulWeights() const = 0;
  // Layers times the width of all query heads: what attention's cost is proportional to.
  virtual int64_t AttentionWidth() const = 0;
};

// A model of known sizes.
struct ModelPreset {
  std::string name;
  nlohmann::json config;  // as a config.json would have it
};

// Model families by Hugging Face model_type. Each registers itself from a static object in its .cc,
// in a target with alwayslink (DecoderRegistration). Thread-safe.
class ModelRegistry {
 public:
  // Builds a model from the content of a config.json; errors name the key, what it holds and what
  // is supported.
  // With adapters where options.lora says so; Create freezes the rest.
  using Factory = std::function<absl::StatusOr<std::unique_ptr<LanguageModel>>(
      const nlohmann::json& config, const ModelOptions& options)>;

  static void Register(absl::string_view model_type, Factory factory,
                       std::vector<ModelPreset> presets = {});
  // InvalidArgument lists the families linked in if `config` has another model_type, or none; and
  // for options out of their range, LoRA's targets included, and for fp8 without a layer that fits.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Create(const nlohmann::json& config,
                                                               const ModelOptions& options = {});
  static std::vector<std::string> ModelTypes();
};

// The configuration of a preset of any family that is linked in. InvalidArgument lists their names.
absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name);
// In order of size within a family.
std::vector<std::string> PresetNames();

}  // namespace zeroth

#endif  // ZEROTH_NN_LANGUAGE_MODEL_H_
