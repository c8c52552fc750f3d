// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/llama/llama.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/config_reader.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

std::unique_ptr<Linear> MakeLinear(std::string name, int64_t in,
                                   std::vector<LinearOptions::Projection> projections,
                                   float init_std, const LoraOptions& lora) {
  LinearOptions options;
  options.in = in;
  options.projections = std::move(projections);
  options.bias = false;
  options.layout = WeightLayout::kOutIn;
  options.init_std = init_std;
  return BuildLinear(std::move(name), options, lora);
}

// rope_theta stands at the top level or, in newer files, inside rope_parameters.
double RopeTheta(ConfigReader& reader, const nlohmann::json& json, absl::Status* status) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_object()) {
      reader.Require(false, key, "an object");
      continue;
    }
    ConfigReader nested(*found);
    const std::string type = nested.Text("rope_type", nested.Text("type", "default"));
    reader.Require(type == "default", key, "rope_type \"default\" (no rope scaling)");
    if (nested.Has("rope_theta")) {
      const double theta = nested.Number("rope_theta");
      if (status->ok()) *status = nested.status();
      return theta;
    }
    if (status->ok()) *status = nested.status();
  }
  return reader.Number("rope_theta", 10000.0);
}

}  // namespace

absl::StatusOr<LlamaConfig> LlamaConfig::FromJson(const nlohmann::json& json) {
  ConfigReader reader(json);
  LlamaConfig config;
  config.vocab_size = reader.Size("vocab_size");
  config.max_position_embeddings = reader.Size("max_position_embeddings", 2048);
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = reader.Size("intermediate_size");
  config.num_hidden_layers = reader.Size("num_hidden_layers");
  config.num_attention_heads = reader.Size("num_attention_heads");
  config.num_key_value_heads = reader.Size("num_key_value_heads", config.num_attention_heads);
  reader.Require(reader.Has("head_dim") || config.hidden_size % config.num_attention_heads == 0,
                 "num_attention_heads",
                 absl::StrCat("a divisor of hidden_size = ", config.hidden_size));
  config.head_dim = reader.Size("head_dim", config.hidden_size / config.num_attention_heads);
  config.rms_norm_eps = reader.Number("rms_norm_eps", 1e-6);
  config.initializer_range = reader.Number("initializer_range", 0.02);
  config.tie_word_embeddings = reader.Flag("tie_word_embeddings", false);
  absl::Status nested;
  config.rope_theta = RopeTheta(reader, json, &nested);
  reader.Require(config.num_attention_heads % config.num_key_value_heads == 0,
                 "num_key_value_heads",
                 absl::StrCat("a divisor of num_attention_heads = ", config.num_attention_heads));
  reader.Require(config.head_dim % 2 == 0, "head_dim",
                 "an even number (rotary positions pair elements)");
  reader.Require(reader.Text("hidden_act", "silu") == "silu", "hidden_act", "\"silu\"");
  reader.Require(!reader.Flag("attention_bias", false), "attention_bias", "false");
  reader.Require(!reader.Flag("mlp_bias", false), "mlp_bias", "false");
  if (!reader.status().ok()) return reader.status();
  if (!nested.ok()) return nested;
  return config;
}

LlamaBlock::LlamaBlock(std::string name, const LlamaConfig& config, const LoraOptions& lora)
    : Module(std::move(name)) {
  const int64_t dim = config.hidden_size;
  const float std = static_cast<float>(config.initializer_range);
  AttentionOptions attention;
  attention.heads = config.num_attention_heads;
  attention.kv_heads = config.num_key_value_heads;
  attention.head_dim = config.head_dim;
  attention.rope_theta = static_cast<float>(config.rope_theta);
  const int64_t q = attention.heads * attention.head_dim;
  const int64_t kv = attention.kv_heads * attention.head_dim;
  input_layernorm_ =
      AddChild(std::make_unique<RMSNorm>(Scoped("input_layernorm"), dim, config.rms_norm_eps));
  self_attn_ = AddChild(std::make_unique<Attention>(
      Scoped("self_attn"), attention,
      MakeLinear(Scoped("self_attn"), dim, {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}}, std,
                 lora),
      MakeLinear(Scoped("self_attn.o_proj"), q, {{"", dim}}, std, lora)));
  post_attention_layernorm_ = AddChild(
      std::make_unique<RMSNorm>(Scoped("post_attention_layernorm"), dim, config.rms_norm_eps));
  const int64_t hidden = config.intermediate_size;
  mlp_ = AddChild(std::make_unique<Mlp>(
      Scoped("mlp"), MlpActivation::kSwiGlu,
      MakeLinear(Scoped("mlp"), dim, {{"gate_proj", hidden}, {"up_proj", hidden}}, std, lora),
      MakeLinear(Scoped("mlp.down_proj"), hidden, {{"", dim}}, std, lora)));
}

absl::StatusOr<Value> LlamaBlock::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> LlamaBlock::Compute(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(const Value normed, input_layernorm_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(const Value attended, self_attn_->Forward(context, normed));
  ZEROTH_ASSIGN_OR_RETURN(const NormResult middle,
                          post_attention_layernorm_->ForwardResidual(context, x, attended));
  ZEROTH_ASSIGN_OR_RETURN(const Value out, mlp_->Forward(context, middle.normalized));
  return AddOp(context, middle.sum, out);
}

Llama::Llama(const LlamaConfig& config, const ModelOptions& options)
    : LanguageModel(""), config_(config) {
  embed_tokens_ = AddChild(std::make_unique<Embedding>(
      Scoped("model.embed_tokens"), config.vocab_size, config.hidden_size,
      static_cast<float>(config.initializer_range)));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back(AddChild(std::make_unique<LlamaBlock>(
        Scoped(absl::StrCat("model.layers.", i)), config, options.lora)));
  }
  norm_ = AddChild(
      std::make_unique<RMSNorm>(Scoped("model.norm"), config.hidden_size, config.rms_norm_eps));
  if (config.tie_word_embeddings) {
    head_ = embed_tokens_->weight();
    ShareParameter(head_);
  } else {
    head_ = AddParameter("lm_head.weight", Shape({config.vocab_size, config.hidden_size}),
                         Initializer::Normal(static_cast<float>(config.initializer_range)));
  }
}

absl::StatusOr<Value> Llama::Hidden(Context& context, const Tensor& tokens) {
  if (tokens.shape().rank() == 2 && tokens.dim(1) > config_.max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat("sequence length ", tokens.dim(1),
                                                   " exceeds the model's ",
                                                   config_.max_position_embeddings, " positions"));
  }
  ZEROTH_ASSIGN_OR_RETURN(Value x, embed_tokens_->Forward(context, tokens));
  for (LlamaBlock* layer : layers_) {
    ZEROTH_ASSIGN_OR_RETURN(x, layer->Forward(context, x));
  }
  return norm_->Forward(context, x);
}

int64_t Llama::MatmulWeights() const {
  const int64_t dim = config_.hidden_size;
  const int64_t q = config_.num_attention_heads * config_.head_dim;
  const int64_t kv = config_.num_key_value_heads * config_.head_dim;
  return config_.num_hidden_layers *
             (2 * dim * q + 2 * dim * kv + 3 * dim * config_.intermediate_size) +
         config_.vocab_size * dim;
}

nlohmann::json Llama::HfConfig() const {
  nlohmann::json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = "llama";
  json["hidden_act"] = "silu";
  json["vocab_size"] = config_.vocab_size;
  json["max_position_embeddings"] = config_.max_position_embeddings;
  json["hidden_size"] = config_.hidden_size;
  json["intermediate_size"] = config_.intermediate_size;
  json["num_hidden_layers"] = config_.num_hidden_layers;
  json["num_attention_heads"] = config_.num_attention_heads;
  json["num_key_value_heads"] = config_.num_key_value_heads;
  json["head_dim"] = config_.head_dim;
  json["rms_norm_eps"] = config_.rms_norm_eps;
  json["rope_theta"] = config_.rope_theta;
  json["initializer_range"] = config_.initializer_range;
  json["attention_bias"] = false;
  json["attention_dropout"] = 0.0;
  json["mlp_bias"] = false;
  json["tie_word_embeddings"] = config_.tie_word_embeddings;
  json["torch_dtype"] = "float32";
  return json;
}

namespace {

const ModelRegistration registration("llama",
                                     [](const nlohmann::json& json, const ModelOptions& options)
                                         -> absl::StatusOr<std::unique_ptr<LanguageModel>> {
                                       ZEROTH_ASSIGN_OR_RETURN(const LlamaConfig config,
                                                               LlamaConfig::FromJson(json));
                                       return std::make_unique<Llama>(config, options);
                                     });

}  // namespace
}  // namespace zeroth
