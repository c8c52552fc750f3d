// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/gpt2/gpt2.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/config_reader.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

std::unique_ptr<Linear> MakeLinear(std::string name, int64_t in, int64_t out, float init_std,
                                   const LoraOptions& lora) {
  LinearOptions options;
  options.in = in;
  options.projections = {{"", out}};
  options.layout = WeightLayout::kInOut;
  options.init_std = init_std;
  return BuildLinear(std::move(name), options, lora);
}

int64_t InnerWidth(const Gpt2Config& config) {
  return config.n_inner > 0 ? config.n_inner : 4 * config.n_embd;
}

}  // namespace

absl::StatusOr<Gpt2Config> Gpt2Config::FromJson(const nlohmann::json& json) {
  ConfigReader reader(json);
  Gpt2Config config;
  config.vocab_size = reader.Size("vocab_size");
  config.n_positions =
      reader.Size("n_positions", reader.Has("n_ctx") ? reader.Size("n_ctx") : 1024);
  config.n_embd = reader.Size("n_embd");
  config.n_layer = reader.Size("n_layer");
  config.n_head = reader.Size("n_head");
  config.n_inner = reader.Has("n_inner") ? reader.Size("n_inner") : 0;
  config.layer_norm_epsilon = reader.Number("layer_norm_epsilon", 1e-5);
  config.initializer_range = reader.Number("initializer_range", 0.02);
  reader.Require(config.n_embd % config.n_head == 0, "n_head",
                 absl::StrCat("a divisor of n_embd = ", config.n_embd));
  reader.Require(reader.Text("activation_function", "gelu_new") == "gelu_new",
                 "activation_function", "\"gelu_new\"");
  reader.Require(reader.Flag("tie_word_embeddings", true), "tie_word_embeddings",
                 "true (GPT-2's head is tied)");
  reader.Require(reader.Flag("scale_attn_weights", true), "scale_attn_weights", "true");
  reader.Require(!reader.Flag("scale_attn_by_inverse_layer_idx", false),
                 "scale_attn_by_inverse_layer_idx", "false");
  reader.Require(!reader.Flag("add_cross_attention", false), "add_cross_attention", "false");
  if (!reader.status().ok()) return reader.status();
  return config;
}

Gpt2Block::Gpt2Block(std::string name, const Gpt2Config& config, const LoraOptions& lora)
    : Module(std::move(name)) {
  const int64_t dim = config.n_embd;
  const float std = static_cast<float>(config.initializer_range);
  // Residual projections start smaller, so that the residual stream's variance does not grow with
  // depth (GPT-2, §2.3).
  const float residual_std = std / std::sqrt(2.0f * static_cast<float>(config.n_layer));
  AttentionOptions attention;
  attention.heads = config.n_head;
  attention.kv_heads = config.n_head;
  attention.head_dim = dim / config.n_head;
  ln_1_ = AddChild(std::make_unique<LayerNorm>(Scoped("ln_1"), dim, config.layer_norm_epsilon));
  attn_ = AddChild(std::make_unique<Attention>(
      Scoped("attn"), attention, MakeLinear(Scoped("attn.c_attn"), dim, 3 * dim, std, lora),
      MakeLinear(Scoped("attn.c_proj"), dim, dim, residual_std, lora)));
  ln_2_ = AddChild(std::make_unique<LayerNorm>(Scoped("ln_2"), dim, config.layer_norm_epsilon));
  mlp_ = AddChild(std::make_unique<Mlp>(
      Scoped("mlp"), MlpActivation::kGelu,
      MakeLinear(Scoped("mlp.c_fc"), dim, InnerWidth(config), std, lora),
      MakeLinear(Scoped("mlp.c_proj"), InnerWidth(config), dim, residual_std, lora)));
}

absl::StatusOr<Value> Gpt2Block::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> Gpt2Block::Compute(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(const Value normed, ln_1_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(const Value attended, attn_->Forward(context, normed));
  ZEROTH_ASSIGN_OR_RETURN(const NormResult middle, ln_2_->ForwardResidual(context, x, attended));
  ZEROTH_ASSIGN_OR_RETURN(const Value out, mlp_->Forward(context, middle.normalized));
  return AddOp(context, middle.sum, out);
}

Gpt2::Gpt2(const Gpt2Config& config, const ModelOptions& options)
    : LanguageModel("transformer"), config_(config) {
  wte_ = AddChild(std::make_unique<Embedding>(Scoped("wte"), config.vocab_size, config.n_embd,
                                              static_cast<float>(config.initializer_range)));
  ShareParameter(wte_->weight());  // the head
  wpe_ = AddParameter("wpe.weight", Shape({config.n_positions, config.n_embd}),
                      Initializer::Normal(static_cast<float>(config.initializer_range)));
  for (int64_t i = 0; i < config.n_layer; ++i) {
    blocks_.push_back(
        AddChild(std::make_unique<Gpt2Block>(Scoped(absl::StrCat("h.", i)), config, options.lora)));
  }
  ln_f_ = AddChild(
      std::make_unique<LayerNorm>(Scoped("ln_f"), config.n_embd, config.layer_norm_epsilon));
}

absl::StatusOr<Value> Gpt2::Hidden(Context& context, const Tensor& tokens) {
  ZEROTH_ASSIGN_OR_RETURN(Value x, wte_->Forward(context, tokens, wpe_));
  for (Gpt2Block* block : blocks_) {
    ZEROTH_ASSIGN_OR_RETURN(x, block->Forward(context, x));
  }
  return ln_f_->Forward(context, x);
}

int64_t Gpt2::MatmulWeights() const {
  const int64_t dim = config_.n_embd;
  return config_.n_layer * (4 * dim * dim + 2 * dim * InnerWidth(config_)) +
         config_.vocab_size * dim;
}

nlohmann::json Gpt2::HfConfig() const {
  nlohmann::json json;
  json["architectures"] = {"GPT2LMHeadModel"};
  json["model_type"] = "gpt2";
  json["activation_function"] = "gelu_new";
  json["vocab_size"] = config_.vocab_size;
  json["n_positions"] = config_.n_positions;
  json["n_ctx"] = config_.n_positions;
  json["n_embd"] = config_.n_embd;
  json["n_layer"] = config_.n_layer;
  json["n_head"] = config_.n_head;
  json["n_inner"] = config_.n_inner > 0 ? nlohmann::json(config_.n_inner) : nlohmann::json(nullptr);
  json["layer_norm_epsilon"] = config_.layer_norm_epsilon;
  json["initializer_range"] = config_.initializer_range;
  json["attn_pdrop"] = 0.0;
  json["embd_pdrop"] = 0.0;
  json["resid_pdrop"] = 0.0;
  json["tie_word_embeddings"] = true;
  json["torch_dtype"] = "float32";
  return json;
}

namespace {

const ModelRegistration registration("gpt2",
                                     [](const nlohmann::json& json, const ModelOptions& options)
                                         -> absl::StatusOr<std::unique_ptr<LanguageModel>> {
                                       ZEROTH_ASSIGN_OR_RETURN(const Gpt2Config config,
                                                               Gpt2Config::FromJson(json));
                                       return std::make_unique<Gpt2>(config, options);
                                     });

}  // namespace
}  // namespace zeroth
