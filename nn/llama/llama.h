// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Llama (Touvron et al., 2023): RMS-norm, rotary positions, grouped-query attention, SwiGLU, with
// the parameter names and shapes of Hugging Face's LlamaForCausalLM: weights of linear layers are
// [out, in].

#ifndef ZEROTH_NN_LLAMA_LLAMA_H_
#define ZEROTH_NN_LLAMA_LLAMA_H_

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

struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t max_position_embeddings = 2048;
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 5632;
  int64_t num_hidden_layers = 22;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 4;
  int64_t head_dim = 64;
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;

  // From the content of a config.json. InvalidArgument for what this implementation does not
  // compute: other activations than silu, biases, dropout, rope scaling.
  static absl::StatusOr<LlamaConfig> FromJson(const nlohmann::json& json);
};

// One decoder layer: x + attention(norm(x)), then + mlp(norm(..)).
class LlamaBlock : public Module {
 public:
  LlamaBlock(std::string name, const LlamaConfig& config, const LoraOptions& lora);

  Role role() const override { return Role::kBlock; }
  absl::StatusOr<Value> Forward(Context& context, const Value& x);

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x);
  RMSNorm* input_layernorm_;
  Attention* self_attn_;
  RMSNorm* post_attention_layernorm_;
  Mlp* mlp_;
};

class Llama : public LanguageModel {
 public:
  // num_key_value_heads must divide num_attention_heads, and head_dim be even (FromJson checks).
  explicit Llama(const LlamaConfig& config, const ModelOptions& options = {});

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_seq_len() const override { return config_.max_position_embeddings; }
  nlohmann::json HfConfig() const override;

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override;
  Parameter& head() override { return *head_; }
  int64_t MatmulWeights() const override;
  int64_t AttentionWidth() const override {
    return config_.num_hidden_layers * config_.num_attention_heads * config_.head_dim;
  }

 private:
  LlamaConfig config_;
  Embedding* embed_tokens_;
  std::vector<LlamaBlock*> layers_;
  RMSNorm* norm_;
  Parameter* head_;
};

}  // namespace zeroth

#endif  // ZEROTH_NN_LLAMA_LLAMA_H_
