// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/nn/distillation.h"
#include "zeroth/nn/key_value_cache.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/layers/router_options.h"
#include "zeroth/nn/logit_transform.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/tensor_division.h"

namespace zeroth {

// Options of a model besides its configuration.
struct ModelOptions {
  // If enabled, linear layers have adapters, and everything else but lora.modules_to_save is
  // frozen.
  LoraOptions lora;
  // Linear layers of blocks multiply in 8-bit floats if their sizes allow it; see Fp8LinearOp and
  // FindFp8Layers.
  bool fp8 = false;
  // Only for a mixture of experts (MoeMlp).
  RouterOptions router;
  // The head scores texts (LanguageModel::scores), even if the configuration has a head that
  // predicts tokens.
  bool scoring_head = false;
};

// A causal language model, which computes the next-token loss, or logits, of tokens. A family
// (GPT-2, Llama) is a folder that registers itself under its Hugging Face model_type: a table of
// decoder_family.h, or a custom class.
class LanguageModel : public Module {
 public:
  using Module::Module;

  // Returns the mean next-token cross-entropy, [1]. While recording, it includes the model's
  // auxiliary losses, such as one that balances experts. tokens and targets are int32 [batch, seq];
  // targets[b, s] is the token that follows tokens[b, s].
  absl::StatusOr<Value> Loss(Context& context, const Tensor& tokens, const Tensor& targets);
  // Returns the logits, fp32 [batch, seq - from, vocab], of the positions from `from` on; from > 0
  // needs a batch of 1. Records nothing. With a cache, `tokens` [1, seq] follow the cached ones,
  // and are added to the cache; an error leaves it as it was. InvalidArgument for another shape,
  // and for more tokens than the cache has room for.
  absl::StatusOr<Tensor> Logits(Context& context, const Tensor& tokens, int64_t from = 0,
                                KeyValueCache* cache = nullptr);
  // Calls `use` with what the logits of `tokens` are made of, and does not make them. The weight is
  // gathered during that call only, in which another model may run. Records nothing in this model's
  // context. Unimplemented for a reward model.
  absl::Status WithHeadInputs(Context& context, const Tensor& tokens,
                              absl::FunctionRef<absl::Status(const HeadInputs&)> use);
  // True if Logits supports a cache. A custom model may return true if all of its attention and
  // convolutions come from nn/layers or nn/ops (CachedAttentionOp), and its positions begin at
  // Context::first_position. A custom recurrence must keep its state in Context::cache
  // (KeyValueCache::State, SetNextState).
  virtual bool SupportsCache() const { return false; }
  // Above 0: sequences longer than this use other rotary frequencies (LongRoPE), so a cache filled
  // with at most this many tokens is stale for them.
  virtual int64_t CacheValidUpTo() const { return 0; }

  // True if the head has one output, which scores the text up to a token, instead of logits: a
  // reward model, transformers' ...ForSequenceClassification with one label. Loss then needs an
  // objective, and Logits are Unimplemented.
  virtual bool scores() const { return false; }

  // True if parts of the model add to Context::extra_loss.
  virtual bool HasExtraLoss() const { return false; }

  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_seq_len() const = 0;
  // The output projection (lm_head), [vocab, dim]; the embedding's weight if the two are tied. With
  // scores(), [1, dim].
  const Parameter& head_weight() const { return const_cast<LanguageModel*>(this)->head(); }
  // Unimplemented if the model has both a LogitCap() and a logit_transform(). ModelRegistry and
  // Trainer call this, so that no run begins with such a model.
  absl::Status CheckLogits() const;
  // True if sequences may be packed documents (Context::document_starts).
  virtual bool TakesDocuments() const { return false; }
  // Returns the floating-point operations of forward and backward per token of a sequence of `seq`,
  // for utilisation (MFU): those of causal attention, plus 6 per weight of a matmul, or 4 if LoRA
  // freezes the weight, which then has no gradient.
  double FlopsPerToken(int64_t seq) const;
  // The rules by which tensor ranks divide the parameters. Unimplemented names the part of the
  // model that cannot be divided; by default, no part can.
  virtual absl::StatusOr<std::vector<DivisionRule>> DivisionRules() const;
  // The Hugging Face configuration that describes this model, for config.json.
  virtual nlohmann::json HfConfig() const = 0;

 protected:
  // Final hidden states [batch, seq, dim], normalised.
  virtual absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) = 0;
  // The output projection, [vocab, dim], or [1, dim].
  virtual Parameter& head() = 0;
  // Above 0: a logit x becomes LogitCap() * tanh(x / LogitCap()), in the loss too.
  virtual float LogitCap() const { return 0; }
  // Transform of the logits, in the loss too; null: none. Owned by the model. Cannot be combined
  // with LogitCap(), and is ignored with scores(), as LogitCap() is. HfConfig() must describe it,
  // under a separate model_type: other programs would use the weights without it. The loss is then
  // DividedCrossEntropyOp, with one more fp32 chunk of logits.
  virtual const LogitTransform* logit_transform() const { return nullptr; }
  // The number of weights that every token is multiplied with, the head's included.
  virtual int64_t MatmulWeights() const = 0;
  // The same for operations of linear attention between activations: a matmul of a token's vector
  // with a state counts the state's elements.
  virtual int64_t StateWeights() const { return 0; }
  // Layers times the width of all query heads, to which attention's cost is proportional.
  virtual int64_t AttentionWidth() const = 0;
  // The sliding window: the most tokens that a token attends to; 0: no window.
  virtual int64_t AttentionWindow() const { return 0; }
  // AttentionWidth of the layers with the window.
  virtual int64_t WindowedAttentionWidth() const { return AttentionWidth(); }

 private:
  absl::StatusOr<Value> CrossEntropy(Context& context, const Tensor& tokens, const Tensor& targets);
};

// Reduces `model` to the shard of tensor rank `index`, by DivideParameters. Unimplemented for a
// model with 8-bit matmuls.
absl::Status DivideModel(LanguageModel& model, const TensorParallelOptions& options, int index);

// True for a config.json of transformers' ...ForSequenceClassification.
bool HasScoringHead(const nlohmann::json& config);

// A model with published sizes.
struct ModelPreset {
  std::string name;
  std::string config;  // the text of its config.json
};

// Model families by Hugging Face model_type. Each registers itself from a static object in its .cc,
// in a target with alwayslink (ModelRegistration, DecoderRegistration). Thread-safe.
class ModelRegistry {
 public:
  // Builds a model from the content of a config.json, with the adapters of options.lora; Create
  // freezes the other parameters. Errors name the key, its value, and what is supported.
  using Factory = std::function<absl::StatusOr<std::unique_ptr<LanguageModel>>(
      const nlohmann::json& config, const ModelOptions& options)>;

  // InvalidArgument lists the families that are linked in, if `config` has another model_type or
  // none. Also InvalidArgument for options out of their range, LoRA's targets included, for fp8 if
  // no layer fits, and for options of routers of a model without experts.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Create(const nlohmann::json& config,
                                                               const ModelOptions& options = {});
  static std::vector<std::string> ModelTypes();
};

// Put one at namespace scope in the family's .cc, in a target with alwayslink.
struct ModelRegistration {
  ModelRegistration(absl::string_view model_type, ModelRegistry::Factory factory,
                    std::vector<ModelPreset> presets = {});
};

// Returns the config.json of a preset of any family that is linked in. InvalidArgument lists the
// presets' names.
absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name);
// Returns the names of all presets, by size within a family.
std::vector<std::string> PresetNames();

}  // namespace zeroth
