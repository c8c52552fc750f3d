// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

// Makes a layer from `in` to all of `outs` side by side, in the module `scope`. One name: a layer
// of that name with one weight. Several names: a weight for each of `outs`.
std::unique_ptr<Linear> MakeLinear(const std::string& scope, const std::vector<std::string>& names,
                                   int64_t in, const std::vector<int64_t>& outs,
                                   LinearOptions options, const LoraOptions& lora) {
  options.in = in;
  if (names.size() == 1) {
    options.projections = {{"", std::accumulate(outs.begin(), outs.end(), int64_t{0})}};
    return BuildLinear(absl::StrCat(scope, ".", names[0]), options, lora);
  }
  for (size_t i = 0; i < outs.size(); ++i) options.projections.push_back({names[i], outs[i]});
  return BuildLinear(scope, options, lora);
}

// Rounds to `dtype`, as transformers rounds an embedding's factor to the type of the embedding.
float RoundedTo(DType dtype, float value) {
  if (dtype == DType::kBFloat16) return ToFloat(ToBFloat16(value));
  return dtype == DType::kFloat16 ? ToFloat(ToFloat16(value)) : value;
}

DecoderConfig WithoutZeros(DecoderConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.dim / config.heads;
  if (config.mlp_hidden == 0) config.mlp_hidden = 4 * config.dim;
  if (config.query_scalar == 0) config.query_scalar = config.head_dim;
  return config;
}

std::unique_ptr<MlpLayer> MakeMoe(const std::string& name, const DecoderConfig& config,
                                  const LinearOptions& in, const LinearOptions& out,
                                  const ModelOptions& model) {
  MoeOptions options;
  options.dim = config.dim;
  options.hidden = config.expert_hidden;
  options.experts = config.experts;
  options.top_k = config.experts_per_token;
  options.weights = {config.expert_scores, config.normalize_expert_weights,
                     static_cast<float>(config.expert_weight_scale)};
  options.bias = config.router_bias;
  options.linear_biases = config.moe_biases;
  options.swiglu_limit = static_cast<float>(config.swiglu_limit);
  double layers = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) layers += config.HasExperts(layer);
  if (config.balances_experts) {
    options.balance = static_cast<float>(config.balance_coefficient / layers);
  }
  options.z_loss = static_cast<float>(model.router.z_loss / layers);
  options.fp32_router = model.router.fp32;
  options.init_std = in.init_std;
  options.out_init_std = out.init_std;
  options.router = config.names.router;
  options.experts_name = config.names.experts;
  options.gate = config.names.mlp_in[0];
  options.up = config.names.mlp_in[1];
  options.out = config.names.mlp_out;
  options.lora = model.lora;
  options.shared_gate = config.names.shared_expert_gate;
  std::unique_ptr<MlpLayer> shared;
  if (const int64_t width = config.SharedHidden(); width > 0) {
    const std::string scope = absl::StrCat(name, ".", config.names.shared_expert);
    shared = std::make_unique<Mlp>(
        scope, config.activation, config.gated,
        MakeLinear(scope, config.names.mlp_in, config.dim, {width, width}, in, model.lora),
        MakeLinear(scope, {config.names.mlp_out}, width, {config.dim}, out, model.lora));
  }
  return std::make_unique<MoeMlp>(name, options, std::move(shared));
}

// Makes options of a layer with a bias or without; a projection may be one onto the residual
// stream.
using LinearOptionsOf = std::function<LinearOptions(bool bias, bool onto_residual)>;

std::unique_ptr<TokenMixer> MakeLinearAttention(const std::string& name,
                                                const DecoderConfig& config,
                                                const LinearOptionsOf& linear,
                                                const LoraOptions& lora) {
  const DecoderNames& names = config.names;
  GatedDeltaNetOptions options;
  options.shape = config.LinearShape();
  options.taps = config.linear_taps;
  options.norm_eps = config.norm_eps;
  options.init_std = static_cast<float>(config.init_std);
  const int64_t heads = config.linear_value_heads;
  const int64_t values = heads * config.linear_value_dim;
  const LinearOptions in = linear(false, false);
  return std::make_unique<GatedDeltaNet>(
      name, options,
      MakeLinear(name, {names.linear_qkv}, config.dim, {options.shape.packed_dim()}, in, lora),
      MakeLinear(name, {names.linear_z}, config.dim, {values}, in, lora),
      MakeLinear(name, {names.linear_b, names.linear_a}, config.dim, {heads, heads}, in, lora),
      MakeLinear(name, {names.linear_out}, values, {config.dim}, linear(false, true), lora));
}

std::unique_ptr<TokenMixer> MakeMixer(const std::string& attention, int64_t layer,
                                      const DecoderConfig& config, const LinearOptionsOf& linear,
                                      const LoraOptions& lora) {
  if (config.IsLinear(layer)) return MakeLinearAttention(attention, config, linear, lora);
  const DecoderNames& names = config.names;
  const int64_t q = config.heads * config.head_dim;
  const int64_t kv = config.kv_heads * config.head_dim;
  AttentionOptions options;
  options.heads = config.heads;
  options.kv_heads = config.kv_heads;
  options.head_dim = config.head_dim;
  options.window = config.IsLocal(layer) || !config.mixes_windows ? config.window : 0;
  if (config.rotary) {
    options.rope = config.IsLocal(layer) && !config.one_rope ? config.local_rope : config.rope;
  }
  options.gated = config.gated_attention;
  options.cap = static_cast<float>(config.score_cap);
  if (config.attention_sinks) {
    options.sinks = Initializer::Normal(static_cast<float>(config.init_std));
  }
  const auto qk_norm = [&](const std::string& norm, int64_t width) {
    if (!config.qk_norm_over_all_heads) width = config.head_dim;
    return norm.empty() ? nullptr
                        : std::make_unique<Norm>(absl::StrCat(attention, ".", norm), config.norm,
                                                 width, config.norm_eps);
  };
  const auto head_dim = static_cast<double>(config.head_dim);
  const auto scalar = static_cast<double>(config.query_scalar);
  // With norms of queries, QkNorms::query_scale has the factor.
  const bool scales_scores = names.q_norm.empty() && config.query_scalar != config.head_dim;
  if (scales_scores) options.scale = static_cast<float>(1.0 / std::sqrt(scalar));
  return std::make_unique<Attention>(
      attention, options,
      MakeLinear(attention, names.qkv, config.dim, {config.gated_attention ? 2 * q : q, kv, kv},
                 linear(config.qkv_bias, false), lora),
      MakeLinear(attention, {names.attention_out}, q, {config.dim},
                 linear(config.attention_out_bias, true), lora),
      QkNorms{qk_norm(names.q_norm, q), qk_norm(names.k_norm, kv), config.qk_norm_over_all_heads,
              static_cast<float>(std::sqrt(head_dim / scalar))});
}

std::vector<DivisionRule> LinearAttentionRules(const DecoderConfig& config) {
  const DecoderNames& names = config.names;
  const std::string linear = names.linear_attention + ".";
  const int64_t keys = config.linear_key_heads * config.linear_key_dim;
  const int64_t values = config.linear_value_heads * config.linear_value_dim;
  const int64_t heads = config.linear_value_heads;
  std::vector<DivisionRule> rules = {{names.linear_attention, Division::kOutputs, {}, heads},
                                     {linear + "norm", Division::kNormOfHeads},
                                     {linear + names.linear_out, Division::kDepth, {}, heads}};
  for (const std::string& name : {names.linear_z, names.linear_b, names.linear_a}) {
    rules.push_back({linear + name, Division::kOutputs, {}, heads});
  }
  // A rank has the value heads of its key heads, so that whole key heads suffice.
  for (const std::string& name : {names.linear_qkv, std::string("conv1d")}) {
    rules.push_back(
        {linear + name, Division::kOutputs, {keys, keys, values}, config.linear_key_heads});
  }
  return rules;
}

}  // namespace

bool DecoderConfig::HasExperts(int64_t layer) const {
  const bool is_dense = std::ranges::count(dense_layers, layer) > 0;
  return experts > 0 && layer >= first_dense_layers && !is_dense && (layer + 1) % sparse_step == 0;
}

bool DecoderConfig::IsLocal(int64_t layer) const {
  return mixes_windows && std::ranges::count(full_layers, layer) == 0;
}

bool DecoderConfig::IsLinear(int64_t layer) const {
  return mixes_linear && std::ranges::count(full_layers, layer) == 0;
}

DeltaNetShape DecoderConfig::LinearShape() const {
  DeltaNetShape shape;
  shape.key_heads = linear_key_heads;
  shape.value_heads = linear_value_heads;
  shape.key_dim = linear_key_dim;
  shape.value_dim = linear_value_dim;
  return shape;
}

DecoderBlock::DecoderBlock(int64_t layer, const DecoderConfig& config, const ModelOptions& model)
    : Module(absl::StrCat(config.names.blocks, ".", layer)),
      norm_placement_(config.norm_placement) {
  const DecoderNames& names = config.names;
  const LoraOptions& lora = model.lora;
  const std::vector<int64_t> mlp_in(config.gated ? 2 : 1, config.mlp_hidden);
  const auto add_norm = [&](const std::string& norm) {
    return AddChild(std::make_unique<Norm>(Scoped(norm), config.norm, config.dim, config.norm_eps));
  };
  const auto linear = [&](bool bias, bool onto_residual) {
    LinearOptions options;
    options.bias = bias;
    options.layout = config.layout;
    options.init_std = static_cast<float>(config.init_std);
    if (onto_residual && config.scaled_residual_init) {
      options.init_std /= std::sqrt(2.0f * static_cast<float>(config.layers));
    }
    return options;
  };

  attention_norm_ = add_norm(names.attention_norm);
  attention_ =
      AddChild(MakeMixer(Scoped(config.IsLinear(layer) ? names.linear_attention : names.attention),
                         layer, config, linear, lora));
  if (norm_placement_ == DecoderConfig::NormPlacement::kBoth) {
    attention_out_norm_ = add_norm(names.attention_out_norm);
    mlp_out_norm_ = add_norm(names.mlp_out_norm);
  }
  mlp_norm_ = add_norm(names.mlp_norm);
  const std::string mlp = Scoped(names.mlp);
  if (config.HasExperts(layer)) {
    mlp_ = AddChild(MakeMoe(mlp, config, linear(false, false), linear(false, true), model));
    return;
  }
  mlp_ = AddChild(std::make_unique<Mlp>(
      mlp, config.activation, config.gated,
      MakeLinear(mlp, names.mlp_in, config.dim, mlp_in, linear(config.mlp_in_bias, false), lora),
      MakeLinear(mlp, {names.mlp_out}, config.mlp_hidden, {config.dim},
                 linear(config.mlp_out_bias, true), lora)));
}

absl::StatusOr<Value> DecoderBlock::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> DecoderBlock::Compute(Context& context, const Value& x) {
  const bool is_read = !MaySkipResult(context);
  if (norm_placement_ == DecoderConfig::NormPlacement::kBefore) {
    ZEROTH_ASSIGN_OR_RETURN(const Value normed, attention_norm_->Forward(context, x));
    ZEROTH_ASSIGN_OR_RETURN(const Value attended, attention_->Forward(context, normed));
    ZEROTH_ASSIGN_OR_RETURN(const NormResult middle,
                            mlp_norm_->ForwardResidual(context, x, attended));
    const auto makes_result = MakesResult(context, *mlp_);
    ZEROTH_ASSIGN_OR_RETURN(const Value out, mlp_->Forward(context, middle.normalized));
    return AddOp(context, middle.sum, out, is_read);
  }
  if (norm_placement_ == DecoderConfig::NormPlacement::kBoth) {
    ZEROTH_ASSIGN_OR_RETURN(const Value normed, attention_norm_->Forward(context, x));
    ZEROTH_ASSIGN_OR_RETURN(const Value attended, attention_->Forward(context, normed));
    ZEROTH_ASSIGN_OR_RETURN(const Value added, attention_out_norm_->Forward(context, attended));
    ZEROTH_ASSIGN_OR_RETURN(const NormResult middle, mlp_norm_->ForwardResidual(context, x, added));
    ZEROTH_ASSIGN_OR_RETURN(const Value out, mlp_->Forward(context, middle.normalized));
    ZEROTH_ASSIGN_OR_RETURN(const Value normed_out, mlp_out_norm_->Forward(context, out));
    return AddOp(context, middle.sum, normed_out, is_read);
  }
  ZEROTH_ASSIGN_OR_RETURN(const Value attended, attention_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(const Value normed, attention_norm_->Forward(context, attended));
  ZEROTH_ASSIGN_OR_RETURN(const Value middle, AddOp(context, x, normed));
  ZEROTH_ASSIGN_OR_RETURN(const Value out, mlp_->Forward(context, middle));
  ZEROTH_ASSIGN_OR_RETURN(const Value normed_out, mlp_norm_->Forward(context, out));
  return AddOp(context, middle, normed_out, is_read);
}

Decoder::Decoder(DecoderConfig config, nlohmann::json hf_config, const ModelOptions& options)
    : LanguageModel(""),
      config_(WithoutZeros(std::move(config))),
      hf_config_(std::move(hf_config)),
      has_router_z_loss_(options.router.z_loss > 0) {
  const DecoderNames& names = config_.names;
  const Initializer normal = Initializer::Normal(static_cast<float>(config_.init_std));
  embedding_ = AddChild(std::make_unique<Embedding>(
      names.embedding, config_.vocab_size, config_.dim, static_cast<float>(config_.init_std)));
  if (config_.scores) {
    head_ = AddParameter("score.weight", Shape({1, config_.dim}), normal);
  } else if (config_.tied_head) {
    head_ = embedding_->weight();
    ShareParameter(head_);
  } else {
    head_ = AddParameter(names.head + ".weight", Shape({config_.vocab_size, config_.dim}), normal);
  }
  if (!config_.rotary) {
    positions_ = AddParameter(names.positions + ".weight",
                              Shape({config_.max_positions, config_.dim}), normal);
  }
  for (int64_t i = 0; i < config_.layers; ++i) {
    blocks_.push_back(AddChild(std::make_unique<DecoderBlock>(i, config_, options)));
  }
  norm_ = AddChild(std::make_unique<Norm>(names.norm, config_.norm, config_.dim, config_.norm_eps));
}

absl::StatusOr<Value> Decoder::Hidden(Context& context, const Tensor& tokens) {
  const int64_t length =
      context.first_position() + (tokens.shape().rank() == 2 ? tokens.dim(1) : 0);
  if (length > config_.max_positions) {
    return InvalidArgument("sequence length ", length, " exceeds the model's ",
                           config_.max_positions, " positions");
  }
  if (positions_ != nullptr && context.document_starts().defined()) {
    return absl::UnimplementedError(
        "packed documents in a model with a learned vector for each position, which does not begin "
        "anew with a document; expected a model with rotary positions, or one document a sequence");
  }
  if (const int64_t valid = CacheValidUpTo(); valid > 0 && length > valid) {
    if (context.first_position() > 0 && context.first_position() <= valid) {
      return FailedPrecondition("the cache has the keys of ", context.first_position(),
                                " tokens, which are rotated otherwise in a sequence of more than ",
                                valid, "; expected a new cache");
    }
    if (context.document_starts().defined()) {
      return Unimplemented("packed documents in sequences of ", length,
                           " tokens: a model with longrope rotates a ",
                           "document by the length of its sequence; expected sequences of at most ",
                           valid, " tokens, or one document a sequence");
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(Value x, embedding_->Forward(context, tokens, positions_));
  if (config_.scaled_embedding) {
    const auto factor = static_cast<float>(std::sqrt(static_cast<double>(config_.dim)));
    ZEROTH_ASSIGN_OR_RETURN(x, ScaleOp(context, x, RoundedTo(x.data.dtype(), factor)));
  }
  for (DecoderBlock* block : blocks_) {
    ZEROTH_ASSIGN_OR_RETURN(x, block->Forward(context, x));
  }
  return norm_->Forward(context, x);
}

absl::StatusOr<std::vector<DivisionRule>> Decoder::DivisionRules() const {
  const DecoderNames& names = config_.names;
  if (!names.q_norm.empty() && config_.qk_norm_over_all_heads && config_.norm == NormKind::kLayer) {
    return Unimplemented(
        "norms over all heads together that have a bias, as '", names.q_norm,
        "', cannot be divided among tensor ranks; expected norms by root mean square");
  }
  const std::string attention = names.attention + ".";
  const std::string mlp = names.mlp + ".";
  const int64_t heads = config_.heads;
  const int64_t kv_heads = config_.kv_heads;
  const int64_t q = heads * config_.head_dim;
  const int64_t kv = kv_heads * config_.head_dim;
  std::vector<DivisionRule> rules = {{names.embedding, Division::kVocabulary},
                                     {names.head, Division::kVocabulary},
                                     {"score", Division::kReplicated},
                                     {attention + names.attention_out, Division::kDepth, {}, heads},
                                     {mlp + names.mlp_out, Division::kDepth},
                                     {names.attention_norm, Division::kReplicated},
                                     {names.mlp_norm, Division::kReplicated},
                                     {names.norm, Division::kReplicated},
                                     {names.attention_out_norm, Division::kReplicated},
                                     {names.mlp_out_norm, Division::kReplicated},
                                     {names.positions, Division::kReplicated}};
  if (config_.mixes_linear) {
    // Before the others, since the name of another norm may be "norm" as well.
    const std::vector<DivisionRule> linear = LinearAttentionRules(config_);
    rules.insert(rules.begin(), linear.begin(), linear.end());
  }
  std::vector<int64_t> sections;
  if (names.qkv.size() == 1) sections = {config_.gated_attention ? 2 * q : q, kv, kv};
  for (size_t i = 0; i < names.qkv.size(); ++i) {
    // For a fused qkv kv_heads suffices, since it divides heads.
    rules.push_back({attention + names.qkv[i], Division::kOutputs, sections,
                     sections.empty() && i == 0 ? heads : kv_heads});
  }
  if (config_.attention_sinks) {
    rules.push_back({names.attention, Division::kOutputs, {}, heads});
  }
  const bool is_packed = config_.gated && names.mlp_in.size() == 1;
  for (const std::string& name : names.mlp_in) {
    rules.push_back({mlp + name, Division::kOutputs,
                     std::vector<int64_t>(is_packed ? 2 : 0, config_.mlp_hidden)});
  }
  if (config_.experts > 0) {
    rules.push_back({mlp + names.router, Division::kReplicated});
    if (!names.shared_expert_gate.empty()) {
      rules.push_back({mlp + names.shared_expert_gate, Division::kReplicated});
    }
    // The weights of each expert, matched by what follows the expert's number.
    for (const std::string& name : names.mlp_in) rules.push_back({name, Division::kOutputs});
    rules.push_back({names.mlp_out, Division::kDepth});
  }
  if (!names.q_norm.empty()) {
    const Division division =
        config_.qk_norm_over_all_heads ? Division::kOutputs : Division::kNormOfHeads;
    rules.push_back({attention + names.q_norm, division, {}, heads});
    rules.push_back({attention + names.k_norm, division, {}, kv_heads});
  }
  return rules;
}

}  // namespace zeroth
