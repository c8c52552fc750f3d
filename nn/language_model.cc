// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/language_model.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/moe.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/loss.h"
#include "zeroth/nn/ops/score.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {
namespace {

struct Family {
  ModelRegistry::Factory factory;
  std::vector<ModelPreset> presets;
};

using Families = Registry<ModelRegistry, Family>;

// The end of the names of transformers' models whose head "score" has an output for each label.
constexpr char kScoring[] = "ForSequenceClassification";

constexpr NamedElsewhere kElsewhere[] = {
    {"gpt2_124m", "gpt2 gpt2_small gpt2_117m gpt2_base"},
    {"gpt2_355m", "gpt2_medium gpt2_345m gpt2_350m"},
    {"gpt2_774m", "gpt2_large gpt2_762m"},
    {"gpt2_1558m", "gpt2_xl gpt2_1_5b gpt2_1542m"},
    {"llama_1b", "tinyllama tinyllama_1_1b tinyllama_1_1b_chat_v1_0"},
};

// The presets of all families, in the order of their types.
std::vector<ModelPreset> Presets() {
  std::vector<ModelPreset> presets;
  for (const std::string& type : ModelRegistry::ModelTypes()) {
    const Family family = *Families::Global().Find(type);
    presets.insert(presets.end(), family.presets.begin(), family.presets.end());
  }
  return presets;
}

// Turns sequence parallelism on if TensorParallelOptions::sequence is set. Only for a forward that
// a backward follows: inference has no activations to save, and its sequences may have any length.
absl::Status ShareRows(Context& context, const Tensor& tokens) {
  const TensorRanks* const ranks = context.tensor_ranks();
  const bool shared = ranks != nullptr && ranks->sequence();
  context.set_rows_are_shared(shared);
  if (!shared || tokens.shape().rank() != 2 || tokens.dim(1) % ranks->size() == 0) {
    return absl::OkStatus();
  }
  return InvalidArgument("sequence parallelism: sequences of ", tokens.dim(1),
                         " tokens cannot be divided among ", ranks->size(),
                         " tensor ranks; expected a multiple");
}

}  // namespace

absl::StatusOr<std::vector<DivisionRule>> LanguageModel::DivisionRules() const {
  return absl::UnimplementedError(
      "this model does not say how its parameters are divided (LanguageModel::DivisionRules)");
}

absl::StatusOr<Value> LanguageModel::Loss(Context& context, const Tensor& tokens,
                                          const Tensor& targets) {
  if (!context.recording()) {
    const auto all_rows = context.UseRowsAreShared(false);
    return Hooked(context, [&] { return CrossEntropy(context, tokens, targets); });
  }
  ZEROTH_RETURN_IF_ERROR(ShareRows(context, tokens));
  return Hooked(context, [&]() -> absl::StatusOr<Value> {
    if (!HasExtraLoss()) return CrossEntropy(context, tokens, targets);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor extra, context.Empty(Shape({1}), DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(context.kernels(),
                       {.op = BasicOp::kFill, .out = extra.Reshape(Shape({1, 1})), .scalar = 0}));
    context.set_extra_loss(extra);
    absl::StatusOr<Value> loss = CrossEntropy(context, tokens, targets);
    // Modules that are recomputed in backward must not add their parts twice.
    context.set_extra_loss(Tensor());
    if (!loss.ok()) return loss;
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(context.kernels(), {.a = extra.Reshape(Shape({1, 1})),
                                           .out = loss->data.Reshape(Shape({1, 1})),
                                           .accumulate = true}));
    return loss;
  });
}

absl::Status LanguageModel::CheckLogits() const {
  return scores() ? absl::OkStatus() : CheckOneTransform(LogitCap(), logit_transform());
}

absl::StatusOr<Value> LanguageModel::CrossEntropy(Context& context, const Tensor& tokens,
                                                  const Tensor& targets) {
  ZEROTH_ASSIGN_OR_RETURN(const Value hidden, Hidden(context, tokens));
  if (scores()) return ScoreLossOp(context, hidden, head(), targets);
  if (IsDivided(head()) || context.distillation() != nullptr || logit_transform() != nullptr) {
    return DividedCrossEntropyOp(context, hidden, head(), targets, LogitCap(), logit_transform());
  }
  return LinearCrossEntropyOp(context, hidden, head(), targets, LogitCap());
}

absl::StatusOr<Tensor> LanguageModel::Logits(Context& context, const Tensor& tokens, int64_t from,
                                             KeyValueCache* cache) {
  if (scores()) {
    return absl::UnimplementedError(
        "logits: this is a reward model, whose head scores texts and predicts no tokens");
  }
  if (cache != nullptr && !SupportsCache()) {
    return absl::UnimplementedError(
        "logits with a key/value cache: this model does not support one (SupportsCache)");
  }
  if (cache != nullptr) {
    const bool is_sequence = tokens.shape().rank() == 2 && tokens.dim(0) == 1;
    if (!is_sequence || tokens.dim(1) > cache->capacity() - cache->size()) {
      return InvalidArgument("logits with a key/value cache: tokens ", tokens.shape().ToString(),
                             "; expected one sequence, [1, seq], of at most ",
                             cache->capacity() - cache->size(), " tokens: the cache has ",
                             cache->size(), " of ", cache->capacity());
    }
  }
  const NoGradient off(context.tape());
  const auto with_cache = context.UseCache(cache);
  const auto all_rows = context.UseRowsAreShared(false);
  absl::StatusOr<Tensor> result = Hooked(context, [&]() -> absl::StatusOr<Tensor> {
    ZEROTH_ASSIGN_OR_RETURN(const Value hidden, Hidden(context, tokens));
    const int64_t batch = hidden.data.dim(0);
    const int64_t seq = hidden.data.dim(1);
    const int64_t dim = hidden.data.dim(2);
    if (from < 0 || from > seq || (from > 0 && batch != 1)) {
      return InvalidArgument("logits from position ", from, " of a batch of ", batch, " x ", seq,
                             "; expected 0, or up to ", seq, " with a batch of 1");
    }
    const Tensor asked = hidden.data.View(from * dim, Shape({batch * (seq - from), dim}));
    Tensor logits;
    if (IsDivided(head())) {
      ZEROTH_ASSIGN_OR_RETURN(logits, DividedLogits(context, asked, head()));
      logits = logits.Reshape(Shape({batch, seq - from, logits.dim(1)}));
    } else {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, FullValues(head()));
      ZEROTH_ASSIGN_OR_RETURN(
          logits, context.Empty(Shape({batch, seq - from, weight.dim(0)}), DType::kFloat32));
      ZEROTH_RETURN_IF_ERROR(kernels::Gemm(
          context.kernels(), {.a = asked, .b = weight, .c = logits, .transpose_b = true}));
    }
    ZEROTH_RETURN_IF_ERROR(TransformLogits(context, logits, LogitCap(), logit_transform(), logits));
    return logits;
  });
  if (cache == nullptr) return result;
  if (result.ok()) {
    cache->Grow(tokens.dim(1));
  } else {
    cache->Discard();
  }
  return result;
}

absl::Status LanguageModel::WithHeadInputs(Context& context, const Tensor& tokens,
                                           absl::FunctionRef<absl::Status(const HeadInputs&)> use) {
  if (scores()) {
    return absl::UnimplementedError(
        "a teacher: this is a reward model, whose head scores texts and predicts no tokens");
  }
  const NoGradient off(context.tape());
  const auto all_rows = context.UseRowsAreShared(false);
  return Hooked(context, [&]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Value hidden, Hidden(context, tokens));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, FullValues(head()));
    return use({hidden.data, weight, LogitCap(), logit_transform()});
  });
}

absl::Status DivideModel(LanguageModel& model, const TensorParallelOptions& options, int index) {
  if (!FindFp8Layers(model).in_fp8.empty()) {
    return absl::UnimplementedError(
        "a model with fp8 matmuls cannot be divided among tensor ranks");
  }
  for (const MoeMlp* layer : ModulesOf<const MoeMlp>(model)) {
    if (!options.sequence || !layer->has_shared_gate()) continue;
    return Unimplemented("sequence parallelism with the gate of a shared expert, as of '",
                         layer->name(), "'; leave sequence_parallel out");
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<DivisionRule> rules, model.DivisionRules());
  ZEROTH_RETURN_IF_ERROR(DivideParameters(model, rules, options, index));
  return DividePackedWeights(model);
}

double LanguageModel::FlopsPerToken(int64_t seq) const {
  // A matmul with a weight costs 2 operations forward and 4 backward. Attention's two matmuls cost
  // 2 * 2 * width for each token that is attended to, and twice that backward. A token attends to
  // half of the sequence on average, or to its window, which is shorter for the first tokens.
  const auto length = static_cast<double>(seq);
  const double window =
      AttentionWindow() > 0 ? std::min(length, static_cast<double>(AttentionWindow())) : length;
  const double seen = seq > 0 ? window - window * window / (2.0 * length) : 0.0;
  const auto windowed = static_cast<double>(WindowedAttentionWidth());
  const double full = static_cast<double>(AttentionWidth()) - windowed;
  double adapters = 0;
  for (const LoraAdapter& adapter : LoraAdapters(*this)) {
    adapters +=
        adapter.share * static_cast<double>(adapter.a->global_numel() + adapter.b->global_numel());
  }
  const double per_weight = adapters > 0 ? 4.0 : 6.0;
  // Weights trained in full beside adapters: 2 more each, for their gradients. Embedding tables
  // have no matmul.
  int64_t trained = 0;
  if (adapters > 0) {
    if (head_weight().requires_grad()) trained += head_weight().global_numel();
    for (const Linear* layer : ModulesOf<const Linear>(*this)) {
      for (const LinearPart& part : layer->parts()) {
        if (part.weight->requires_grad()) trained += part.weight->global_numel();
      }
    }
  }
  return per_weight * static_cast<double>(MatmulWeights()) +
         6.0 * (adapters + static_cast<double>(StateWeights())) +
         2.0 * static_cast<double>(trained) + 12.0 * (windowed * seen + full * length / 2.0);
}

ModelRegistration::ModelRegistration(absl::string_view model_type, ModelRegistry::Factory factory,
                                     std::vector<ModelPreset> presets) {
  Families::Global().Add(model_type, {std::move(factory), std::move(presets)});
}

absl::StatusOr<std::unique_ptr<LanguageModel>> ModelRegistry::Create(const nlohmann::json& config,
                                                                     const ModelOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateLoraOptions(options.lora));
  const auto type = config.find("model_type");
  const std::string name =
      type != config.end() && type->is_string() ? type->get<std::string>() : "";
  const std::optional<Family> family = Families::Global().Find(name);
  if (!family.has_value()) {
    return InvalidArgument(
        "model_type ", name.empty() ? "is missing" : "'" + name + "'",
        " in the model's configuration; supported: ", absl::StrJoin(ModelTypes(), ", "));
  }
  nlohmann::json built = config;
  if (options.scoring_head && !HasScoringHead(config)) {
    built["architectures"] = {kScoring};
    built["num_labels"] = 1;
    built.erase("id2label");
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, family->factory(built, options));
  if (model->scores() != HasScoringHead(built)) {
    return Unimplemented("model_type '", name,
                         "' has no head that scores texts; expected one of "
                         "the families of nn/decoder");
  }
  ZEROTH_RETURN_IF_ERROR_WITH(model->CheckLogits(), absl::StrCat("model_type '", name, "'"));
  if (options.lora.enabled()) {
    ZEROTH_RETURN_IF_ERROR(FreezeAllButAdapters(*model, options.lora));
  }
  // A router's bias never has a gradient, even if its module is one of those to save.
  for (RouterBias* bias : ModulesOf<RouterBias>(*model)) bias->parameter().set_requires_grad(false);
  if (options.fp8) ZEROTH_RETURN_IF_ERROR(UseFp8(*model));
  const bool has_router_options = options.router.fp32 || options.router.z_loss > 0;
  if (has_router_options && ModulesOf<const MoeMlp>(*model).empty()) {
    return InvalidArgument(options.router.fp32 ? "router_dtype" : "router_z_loss", ": a ", name,
                           " without experts has no routers; leave it out");
  }
  return model;
}

bool HasScoringHead(const nlohmann::json& config) {
  const auto names = config.find("architectures");
  if (names == config.end() || !names->is_array() || names->empty()) return false;
  const nlohmann::json& name = names->front();
  return name.is_string() && absl::EndsWith(name.get<std::string>(), kScoring);
}

std::vector<std::string> ModelRegistry::ModelTypes() { return Families::Global().Names(); }

absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name) {
  for (const ModelPreset& preset : Presets()) {
    if (name == preset.name) return ParseJson(preset.config, "preset " + preset.name);
  }
  // Model hubs write "owner/name".
  const absl::string_view last = name.substr(name.rfind('/') + 1);
  return InvalidArgument(
      "unknown model '", name, "'", InsteadOf(last, kElsewhere, PresetNames()),
      "; a Hugging Face directory is for --init_from, its config.json for --model (from scratch)");
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (ModelPreset& preset : Presets()) names.push_back(std::move(preset.name));
  return names;
}

}  // namespace zeroth
