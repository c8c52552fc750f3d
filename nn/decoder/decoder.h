// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The transformer decoder. Families such as GPT-2 and Llama are tables of names and flags for it,
// see decoder_family.h.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/decoder/rope_config.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/nn/layers/embedding.h"
#include "zeroth/nn/layers/gated_delta_net.h"
#include "zeroth/nn/layers/mlp.h"
#include "zeroth/nn/layers/moe.h"
#include "zeroth/nn/layers/norm.h"

namespace zeroth {

// The names of a family's modules; parameters add ".weight" and ".bias". If a list has several
// names, the projections of one input are stored apart, in this order.
struct DecoderNames {
  std::string embedding;       // "transformer.wte"
  std::string positions = {};  // "transformer.wpe"; for learned positions only
  std::string blocks;          // "transformer.h": the blocks are "transformer.h.0" and so on
  std::string norm;            // "transformer.ln_f"
  std::string head = "lm_head";
  // Inside a block.
  std::string attention_norm;
  std::string attention;
  std::string linear_attention = {};  // of layers with a GatedDeltaNet
  std::string mlp_norm;
  std::string mlp;
  // Norms of the outputs of attention and MLP, for NormPlacement::kBoth.
  std::string attention_out_norm = {};
  std::string mlp_out_norm = {};
  // Inside the attention: one name if queries, keys and values are stored side by side, or three.
  std::vector<std::string> qkv;
  std::string attention_out;
  // Inside a GatedDeltaNet: what makes queries, keys and values, z, b and a, and the projection
  // back.
  std::string linear_qkv = {};
  std::string linear_z = {};
  std::string linear_b = {};
  std::string linear_a = {};
  std::string linear_out = {};
  // Norms of queries and keys (QkNorms); empty: there are none.
  std::string q_norm = {};
  std::string k_norm = {};
  // Inside the MLP. A gated one has two names, gate and up, or one for both side by side.
  std::vector<std::string> mlp_in;
  std::string mlp_out;
  // Inside the MLP of a mixture of experts: the router, and the name before the experts' numbers.
  // Each expert has the names of a gated MLP.
  std::string router = {};
  std::string experts = {};
  // The expert that all tokens share, and its gate; the latter is empty if there is none.
  std::string shared_expert = {};
  std::string shared_expert_gate = {};
};

struct DecoderConfig {
  DecoderNames names;

  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;    // 0: as many as heads
  int64_t head_dim = 0;    // 0: dim / heads
  int64_t mlp_hidden = 0;  // 0: 4 * dim

  NormKind norm = NormKind::kRms;
  // A block's norms. kBefore: of the inputs of attention and MLP, x + f(norm(x)). kAfter: of their
  // outputs, x + norm(f(x)), as in OLMo 2. kBoth: x + norm(f(norm(x))), as in Gemma 3.
  enum class NormPlacement : uint8_t {
    kBefore,
    kAfter,
    kBoth
  } norm_placement = NormPlacement::kBefore;
  double norm_eps = 1e-5;
  bool qk_norm_over_all_heads = false;  // see QkNorms
  // Scores are divided by this number's square root; 0: by that of head_dim.
  int64_t query_scalar = 0;
  double score_cap = 0;           // AttentionShape::cap
  bool attention_sinks = false;   // AttentionOptions::sinks
  double logit_cap = 0;           // LanguageModel::LogitCap
  bool scaled_embedding = false;  // embeddings are multiplied by the square root of dim

  // Rotary positions; false: a learned vector for each position.
  bool rotary = true;
  RopeKeys rope_keys = RopeKeys::kCommon;
  RopeSpec rope;
  // The number of tokens that a token attends to, itself and those before it; 0: all.
  int64_t window = 0;
  // True: the layers of `full_layers` attend to all tokens and use `rope`. The others have the
  // window and use `local_rope`, as in Gemma 3, or `rope` as well if `one_rope`.
  bool mixes_windows = false;
  int64_t window_pattern = 0;  // without layer_types, every window_pattern-th layer is a full one
  std::vector<int64_t> full_layers;
  bool one_rope = false;
  RopeSpec local_rope;
  bool IsLocal(int64_t layer) const;
  // True: all layers but `full_layers` have a GatedDeltaNet of these sizes instead of attention.
  // Not with mixes_windows.
  bool mixes_linear = false;
  int64_t linear_taps = 0;
  int64_t linear_key_heads = 0;
  int64_t linear_value_heads = 0;
  int64_t linear_key_dim = 0;  // of a head
  int64_t linear_value_dim = 0;
  bool IsLinear(int64_t layer) const;
  DeltaNetShape LinearShape() const;
  bool gated_attention = false;  // AttentionOptions::gated

  ActivationFunction activation = ActivationFunction::kSilu;
  bool gated = true;

  // Above 0: a mixture of this many experts (MoeMlp) instead of the MLP, in every layer i that is
  // not one of `dense_layers`, and for which `sparse_step` divides i + 1.
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_hidden = 0;
  // The width of the expert that all tokens share. Alternatively the number of shared experts, each
  // of width expert_hidden, which are computed as one. Both 0: no shared expert.
  int64_t shared_hidden = 0;
  int64_t shared_experts = 0;
  int64_t SharedHidden() const { return shared_hidden + shared_experts * expert_hidden; }
  ExpertScores expert_scores = ExpertScores::kSoftmax;
  bool normalize_expert_weights = false;
  double expert_weight_scale = 1;  // of the weights
  bool router_bias = false;        // MoeOptions::bias
  bool moe_biases = false;         // MoeOptions::linear_biases
  double swiglu_limit = 0;         // MoeOptions::swiglu_limit
  // True: training adds a loss that balances experts (BalanceOp), averaged over the layers with
  // experts and multiplied by balance_coefficient.
  bool balances_experts = false;
  double balance_coefficient = 0;
  int64_t sparse_step = 1;
  std::vector<int64_t> dense_layers;
  int64_t first_dense_layers = 0;  // these have no experts either
  bool HasExperts(int64_t layer) const;

  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_in_bias = false;
  bool mlp_out_bias = false;
  WeightLayout layout = WeightLayout::kOutIn;
  bool tied_head = false;  // the head is the embedding
  bool scores = false;     // the head is "score", see LanguageModel::scores

  double init_std = 0.02;  // of embeddings and linear layers
  // Projections onto the residual stream start smaller, so that its variance does not grow with
  // depth (GPT-2, §2.3).
  bool scaled_residual_init = false;
};

// One block: attention, then the MLP, each added to the residual stream.
class DecoderBlock : public Module {
 public:
  // Block number `layer`.
  DecoderBlock(int64_t layer, const DecoderConfig& config, const ModelOptions& model);

  Role role() const override { return Role::kBlock; }
  absl::StatusOr<Value> Forward(Context& context, const Value& x);

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x);
  DecoderConfig::NormPlacement norm_placement_;
  Norm* attention_norm_;
  TokenMixer* attention_;
  Norm* mlp_norm_;
  MlpLayer* mlp_;
  Norm* attention_out_norm_ = nullptr;
  Norm* mlp_out_norm_ = nullptr;
};

class Decoder : public LanguageModel {
 public:
  // `hf_config` is the result of HfConfig(). Sizes are positive and fit together: the family's
  // reader of config.json has checked them.
  Decoder(DecoderConfig config, nlohmann::json hf_config, const ModelOptions& options);

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_seq_len() const override { return config_.max_positions; }
  int64_t CacheValidUpTo() const override {
    const bool changes = config_.rotary && config_.rope.type == RopeSpec::Type::kLongrope;
    return changes ? static_cast<int64_t>(config_.rope.original_context) : 0;
  }
  bool TakesDocuments() const override { return config_.rotary; }
  bool scores() const override { return config_.scores; }
  nlohmann::json HfConfig() const override { return hf_config_; }
  bool SupportsCache() const override { return true; }
  bool HasExtraLoss() const override {
    const bool balances = config_.balances_experts && config_.balance_coefficient > 0;
    return config_.experts > 0 && (balances || has_router_z_loss_);
  }
  absl::StatusOr<std::vector<DivisionRule>> DivisionRules() const override;

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override;
  Parameter& head() override { return *head_; }
  float LogitCap() const override { return static_cast<float>(config_.logit_cap); }
  int64_t MatmulWeights() const override;
  int64_t StateWeights() const override;
  int64_t AttentionWidth() const override {
    const auto full = static_cast<int64_t>(config_.full_layers.size());
    return (config_.mixes_linear ? full : config_.layers) * config_.heads * config_.head_dim;
  }
  int64_t AttentionWindow() const override { return config_.window; }
  int64_t WindowedAttentionWidth() const override;

 private:
  const DecoderConfig config_;  // with defaults instead of zeros
  const nlohmann::json hf_config_;
  const bool has_router_z_loss_;
  Embedding* embedding_;
  Parameter* positions_ = nullptr;
  std::vector<DecoderBlock*> blocks_;
  Norm* norm_;
  Parameter* head_;
};

}  // namespace zeroth
