// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), with the
// parameter names and shapes of Hugging Face's GPT2LMHeadModel: weights of linear layers are [in,
// out], the head is tied to the embedding.

#ifndef ZEROTH_NN_GPT2_GPT2_H_
#define ZEROTH_NN_GPT2_GPT2_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/nn/layers/embedding.h"
#include "zeroth/nn/layers/mlp.h"
#include "zeroth/nn/layers/norm.h"

namespace zeroth {

struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 0: 4 * n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;

  // From the content of a config.json. InvalidArgument for what this implementation does not
  // compute: other activations than gelu_new, dropout, scaled or reordered attention, an untied
  // head.
  static absl::StatusOr<Gpt2Config> FromJson(const nlohmann::json& json);
};

// One transformer block: x + attention(norm(x)), then + mlp(norm(..)).
class Gpt2Block : public Module {
 public:
  Gpt2Block(std::string name, const Gpt2Config& config, const LoraOptions& lora);

  Role role() const override { return Role::kBlock; }
  absl::StatusOr<Value> Forward(Context& context, const Value& x);

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x);
  LayerNorm* ln_1_;
  Attention* attn_;
  LayerNorm* ln_2_;
  Mlp* mlp_;
};

class Gpt2 : public LanguageModel {
 public:
  // n_head must divide n_embd (FromJson checks).
  explicit Gpt2(const Gpt2Config& config, const ModelOptions& options = {});

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_seq_len() const override { return config_.n_positions; }
  nlohmann::json HfConfig() const override;

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override;
  Parameter& head() override { return *wte_->weight(); }
  int64_t MatmulWeights() const override;
  int64_t AttentionWidth() const override { return config_.n_layer * config_.n_embd; }

 private:
  Gpt2Config config_;
  Embedding* wte_;
  Parameter* wpe_;
  std::vector<Gpt2Block*> blocks_;
  LayerNorm* ln_f_;
};

}  // namespace zeroth

#endif  // ZEROTH_NN_GPT2_GPT2_H_
