// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/model_source.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "zeroth/api/packing_reader.h"
#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/check_weights.h"
#include "zeroth/train/packed_formats.h"

namespace zeroth {
namespace {

std::string ModelName(const TrainOptions& options) {
  return options.model.empty() ? kDefaultModel : options.model;
}

// Returns the configuration of --model.
absl::StatusOr<nlohmann::json> ConfigNamed(const std::string& name) {
  return absl::EndsWith(name, ".json") ? ReadJsonFile(name) : PresetConfig(name);
}

// Returns the number of positions of the model.
absl::StatusOr<int64_t> PositionsOf(const TrainOptions& options) {
  nlohmann::json config;
  if (options.init_from.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(config, ConfigNamed(ModelName(options)));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(const HfDirectory directory, OpenModelFiles(options.init_from));
    config = directory.config().json();
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(config, ModelOptions()));
  return model->max_seq_len();
}

}  // namespace

int64_t SeqLenOf(const TrainOptions& options) {
  if (options.seq_len > 0) return options.seq_len;
  const int64_t most = options.init_from.empty() ? 128 : 2048;
  const absl::StatusOr<int64_t> positions = PositionsOf(options);
  return positions.ok() ? std::min(most, *positions) : most;
}

// A PEFT adapter that provides initial values of a model's trained parameters. Immutable and
// thread-safe.
struct InitAdapter {
  PeftDirectory files;
  std::map<std::string, PeftTensor> tensors;
};

namespace {

absl::StatusOr<std::shared_ptr<const InitAdapter>> OpenInitAdapter(const std::string& path,
                                                                   const LanguageModel& model) {
  ZEROTH_ASSIGN_OR_RETURN(PeftDirectory opened, PeftDirectory::Open(path));
  auto adapter =
      std::make_shared<InitAdapter>(InitAdapter{std::move(opened), PeftAdapterTensors(model)});
  const WeightsSource& weights = *adapter->files.weights();
  const PeftAdapter& names = adapter->files.adapter();
  const bool head_is_tied = !model.scores() && model.head_weight().name() != "lm_head.weight";
  ZEROTH_RETURN_IF_ERROR(
      CheckSavedEmbedding(names, head_is_tied, absl::StrCat("--init_adapter=", path)));
  std::set<std::string> stored(names.layers.begin(), names.layers.end());
  stored.insert(names.saved.begin(), names.saved.end());
  std::set<std::string> adapted;
  for (const LoraAdapter& part : LoraAdapters(model)) adapted.insert(part.layer());
  for (const Parameter* parameter : SavedParameters(model)) adapted.insert(parameter->name());
  if (adapted != stored) {
    const auto listed = [](const char* what, const std::set<std::string>& all,
                           const std::set<std::string>& some) {
      std::vector<std::string> rest;
      std::ranges::set_difference(all, some, std::back_inserter(rest));
      return rest.empty() ? "" : absl::StrCat("\n  ", what, ": ", absl::StrJoin(rest, ", "));
    };
    return InvalidArgument(
        "--init_adapter=", path, " adapts other layers than this model's adapters",
        listed("only the adapter", stored, adapted), listed("only the model", adapted, stored),
        model.scores() && !stored.contains(model.head_weight().name())
            ? "\nIt was not trained as a reward model. Merge it by tools/convert --in=ADAPTER "
              "--out=DIRECTORY, and give --init_from=DIRECTORY and --lora_rank instead"
            : "\nExpected the model that it was made for as --init_from, without --lora_targets");
  }
  for (const auto& [parameter, tensor] : adapter->tensors) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, weights.ShapeOf(tensor.name));
    if (shape == tensor.shape) continue;
    return InvalidArgument("--init_adapter=", path, ": tensor \"", tensor.name, "\" has shape ",
                           shape.ToString(), ", expected ", tensor.shape.ToString());
  }
  return adapter;
}

// Sets out[i] to element begin + i of the parameter.
absl::Status ReadTensor(const WeightsSource& weights, const PeftTensor& tensor, int64_t begin,
                        absl::Span<float> out) {
  if (!tensor.transposed) return weights.ReadElements(tensor.name, begin, out);
  // LoRA matrices are small, so reading all of one is cheap.
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                          weights.ReadAll(tensor.name, tensor.shape));
  const std::vector<float> turned = Transposed(tensor.shape, values);
  std::copy_n(turned.begin() + begin, out.size(), out.begin());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSource> ModelSource::Open(const TrainOptions& options) {
  ModelSource source;
  source.model_options_.lora = options.lora();
  source.model_options_.router = options.router();
  source.model_options_.fp8 = options.fp8 == Fp8Recipe::kTensorwise;
  source.model_options_.scoring_head = options.objective == Objective::kReward;
  const bool is_gguf = options.base_dtype == BaseDtype::kGguf;
  if (is_gguf && !IsGgufPath(options.init_from)) {
    return InvalidArgument("--base_dtype=gguf with --init_from=", options.init_from,
                           ": trains on the blocks of a GGUF file; expected --init_from=FILE.gguf");
  }
  const bool is_mxfp4 = options.base_dtype == BaseDtype::kMxfp4;
  if (options.init_from.empty()) {
    const std::string name = ModelName(options);
    source.name_ = absl::StrCat("--model=", name);
    ZEROTH_ASSIGN_OR_RETURN(source.config_, ConfigNamed(name));
    ZEROTH_ASSIGN_OR_RETURN(
        source.new_tokens_,
        NewTokensOf(options, options.tokenizer == "auto" ? "" : options.tokenizer));
    source.GrowVocabulary();
    if (is_mxfp4) {
      ZEROTH_RETURN_IF_ERROR(ExpectGptOss(source.name_, source.config_));
      source.assumes_mxfp4_ = true;
    }
    return source;
  }
  ZEROTH_ASSIGN_OR_RETURN(HfDirectory directory, OpenModelFiles(options.init_from));
  const auto* const gguf = dynamic_cast<const GgufWeights*>(&directory.weights());
  if (gguf != nullptr && options.tokenizer == "auto") {
    ZEROTH_RETURN_IF_ERROR(SetGgufTokenizer(gguf->metadata(), &directory));
  }
  const auto* const blocks = dynamic_cast<const PackedBlocks*>(&directory.weights());
  ZEROTH_ASSIGN_OR_RETURN(
      std::vector<AddedToken> new_tokens,
      NewTokensOf(options, options.tokenizer != "auto"          ? options.tokenizer
                           : directory.TokenizerFiles().empty() ? ""
                                                                : directory.tokenizer_path()));
  ZEROTH_ASSIGN_OR_RETURN(
      source, FromDirectory(absl::StrCat("--init_from=", options.init_from), std::move(directory),
                            source.model_options_, std::move(new_tokens)));
  source.blocks_ = blocks;
  if (is_gguf || is_mxfp4) {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> plain, source.Build());
    if (blocks != nullptr && (is_gguf || gguf == nullptr)) {
      source.model_options_.lora.base_formats =
          FormatsOf(*blocks, source.directory_->weights(), *plain);
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> packed, source.Build());
    if (PackedWeights(*packed).empty()) {
      return InvalidArgument(source.name_,
                             ": its linear layers and experts have no quantised weights ",
                             "for --base_dtype=", OptionText("base_dtype", options), "; expected ",
                             is_gguf ? "Q4_0 to Q8_0, Q2_K to Q6_K or MXFP4"
                                     : "a Hugging Face directory of gpt-oss in MXFP4",
                             ", or another --base_dtype");
    }
  }
  if (HasScoringHead(source.config_) && options.objective != Objective::kReward) {
    return InvalidArgument(
        source.name_,
        ": is a reward model, whose head scores texts; expected --objective=reward, "
        "or a model that predicts tokens");
  }
  if (!options.init_adapter.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
    ZEROTH_ASSIGN_OR_RETURN(source.adapter_, OpenInitAdapter(options.init_adapter, *model));
    ZEROTH_RETURN_IF_ERROR_WITH(source.directory_->UseTokenizerOf(options.init_adapter),
                                "--init_adapter");
  }
  return source;
}

absl::StatusOr<ModelSource> ModelSource::FromDirectory(std::string name, HfDirectory directory,
                                                       const ModelOptions& options,
                                                       std::vector<AddedToken> new_tokens) {
  ModelSource source;
  source.name_ = std::move(name);
  source.model_options_ = options;
  source.config_ = directory.config().json();
  source.directory_.emplace(std::move(directory));
  source.new_tokens_ = std::move(new_tokens);
  source.GrowVocabulary();
  // Errors of the configuration and the weights show here, before any rank starts.
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
  const WeightsSource& weights = source.directory_->weights();
  if (!source.new_tokens_.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(source.new_token_rows_, NewTokenRows::Create(weights, *model));
  }
  ZEROTH_ASSIGN_OR_RETURN(
      source.ignored_mtp_tensors_,
      CheckWeights(weights, *model, source.new_token_rows_,
                   /*makes_head=*/options.scoring_head && !HasScoringHead(source.config_)));
  if (const auto* const gguf = dynamic_cast<const GgufWeights*>(&weights)) {
    source.ignored_mtp_tensors_ += gguf->mtp_tensors();
  }
  ZEROTH_RETURN_IF_ERROR(CheckTiedHead(weights, *model));
  return source;
}

void ModelSource::GrowVocabulary() {
  const auto size = config_.find("vocab_size");
  if (size == config_.end() || !size->is_number_integer()) return;  // Build says what is wrong
  for (const AddedToken& token : new_tokens_) {
    if (size->get<int64_t>() <= token.id) *size = token.id + 1;
  }
}

namespace {

// Lists the kinds of as many layers, by the shortest period that those listed have.
void SetLayerTypes(int64_t layers, nlohmann::json& config) {
  const auto found = config.find("layer_types");
  if (found == config.end() || !found->is_array() || found->empty()) return;
  const nlohmann::json types = *found;
  size_t period = 1;
  const auto repeats = [&] {
    for (size_t i = period; i < types.size(); ++i) {
      if (types[i] != types[i - period]) return false;
    }
    return true;
  };
  while (!repeats()) ++period;
  *found = nlohmann::json::array();
  for (size_t i = 0; i < static_cast<size_t>(layers); ++i) found->push_back(types[i % period]);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> ModelSource::Build(
    std::optional<int64_t> layers) const {
  if (!layers.has_value()) return BuildFrom(config_);
  nlohmann::json config = config_;
  for (const char* const key : {"num_hidden_layers", "n_layer"}) {
    if (!config.contains(key)) continue;
    config[key] = *layers;
    SetLayerTypes(*layers, config);
    return BuildFrom(config);
  }
  return InvalidArgument(
      name_,
      ": its configuration has neither num_hidden_layers nor n_layer, so that its layers "
      "cannot be counted");
}

absl::StatusOr<std::unique_ptr<LanguageModel>> ModelSource::BuildFrom(
    const nlohmann::json& config) const {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      ModelRegistry::Create(config, model_options_);
  if (model.ok() && assumes_mxfp4_) {
    ModelOptions packs = model_options_;
    packs.lora.base_formats = PublishedFormats(**model);
    model = ModelRegistry::Create(config, packs);
  }
  if (model.ok()) return model;
  return Annotate(model.status(), directory_.has_value() ? directory_->config().where() : name_);
}

ParameterReader ModelSource::Reader(uint64_t seed) const {
  const ParameterReader stored = StoredReader(seed);
  const bool packs = model_options_.lora.packs() || assumes_mxfp4_;
  if (!packs && (!model_options_.lora.dora || adapter_ != nullptr)) return stored;
  absl::StatusOr<std::unique_ptr<LanguageModel>> built = Build();
  if (!built.ok()) {
    return [error = built.status()](const Parameter&, int64_t, absl::Span<float>) { return error; };
  }
  const std::shared_ptr<const LanguageModel> model = *std::move(built);
  if (packs) {  // excludes DoRA
    return PackingReader(
        model, stored,
        [this](const Parameter& weight, int64_t begin, absl::Span<uint8_t> out) -> absl::Status {
          if (blocks_ == nullptr) {
            return absl::FailedPreconditionError(absl::StrCat(
                name_, ": has no weights; --base_dtype=mxfp4 needs --init_from=DIRECTORY"));
          }
          return blocks_->ReadBlocks(directory_->weights().StoredName(weight.name()), begin, out);
        });
  }
  return [model, adapters = LoraAdapters(*model), stored](const Parameter& parameter, int64_t begin,
                                                          absl::Span<float> out) -> absl::Status {
    for (const LoraAdapter& adapter : adapters) {
      if (adapter.magnitude->name() != parameter.name()) continue;
      return InitialMagnitudes(adapter, begin, out, [&](int64_t from, absl::Span<float> values) {
        return stored(*adapter.weight, from, values);
      });
    }
    return stored(parameter, begin, out);
  };
}

ParameterReader ModelSource::StoredReader(uint64_t seed) const {
  return [this, seed](const Parameter& parameter, int64_t begin,
                      absl::Span<float> out) -> absl::Status {
    if (adapter_ != nullptr) {
      const auto tensor = adapter_->tensors.find(parameter.name());
      if (tensor != adapter_->tensors.end()) {
        return ReadTensor(*adapter_->files.weights(), tensor->second, begin, out);
      }
    }
    if (directory_.has_value()) {
      const WeightsSource& weights = directory_->weights();
      if (new_token_rows_.Contains(parameter.name()))
        return new_token_rows_.Read(weights, parameter, begin, out);
      const std::string name = weights.StoredName(parameter.name());
      if (weights.Find(name) != nullptr) return weights.ReadElements(name, begin, out);
    }
    // The model starts from scratch, or the files lack this adapter. FromDirectory has checked all
    // other parameters.
    parameter.initializer().Fill(seed, parameter.name(), begin, out);
    return absl::OkStatus();
  };
}

}  // namespace zeroth
