// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/model_source.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/byte_tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {
namespace {

constexpr char kDefaultModel[] = "gpt2_nano";

// Some published files leave out the prefix of the model without its head.
std::string StoredName(const WeightsSource& weights, const std::string& name) {
  if (weights.Find(name) != nullptr) return name;
  const size_t dot = name.find('.');
  const std::string prefix = name.substr(0, dot);
  if (dot != std::string::npos && (prefix == "transformer" || prefix == "model")) {
    const std::string shorter = name.substr(dot + 1);
    if (weights.Find(shorter) != nullptr) return shorter;
  }
  return name;
}

// Stored tensors that hold no weights: attention masks and rotary tables of old files, and a tied
// head's second copy.
bool IsKnownExtra(const std::string& name) {
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, "rotary_emb.inv_freq") || name == "lm_head.weight";
}

// Every weight of the model is there, and nothing else; adapters may be.
absl::Status CheckWeights(const WeightsSource& weights, const LanguageModel& model) {
  std::set<const Parameter*> optional;
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    optional.insert(adapter.a);
    optional.insert(adapter.b);
  }
  std::vector<std::string> wrong;
  std::set<std::string> used;
  for (const Parameter* parameter : model.Parameters()) {
    const std::string stored = StoredName(weights, parameter->name());
    if (optional.count(parameter) > 0 && weights.Find(stored) == nullptr) continue;
    const absl::StatusOr<Shape> shape = weights.ShapeOf(stored);
    if (!shape.ok()) {
      wrong.push_back(
          absl::StrCat("missing: ", parameter->name(), " ", parameter->shape().ToString()));
    } else if (*shape != parameter->shape()) {
      wrong.push_back(absl::StrCat("shape: ", stored, " is ", shape->ToString(), ", expected ",
                                   parameter->shape().ToString()));
    }
    used.insert(stored);
  }
  for (const std::string& name : weights.names()) {
    if (used.count(name) == 0 && !IsKnownExtra(name))
      wrong.push_back(absl::StrCat("unexpected: ", name));
  }
  if (wrong.empty()) return absl::OkStatus();
  constexpr size_t kShown = 12;
  const size_t count = wrong.size();
  if (count > kShown) {
    wrong.resize(kShown);
    wrong.push_back(absl::StrCat("… and ", count - kShown, " more"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights of ", weights.description(),
      " do not fit the model that its config.json describes:\n  ", absl::StrJoin(wrong, "\n  ")));
}

}  // namespace

absl::StatusOr<ModelSource> ModelSource::Open(const TrainOptions& options) {
  ModelSource source;
  source.model_options_.lora = options.lora();
  source.model_options_.fp8 = options.fp8 == "tensorwise";
  if (options.init_from.empty()) {
    const std::string preset = options.model.empty() ? kDefaultModel : options.model;
    source.name_ = absl::StrCat("--model=", preset);
    ZEROTH_ASSIGN_OR_RETURN(source.config_, absl::EndsWith(preset, ".json") ? ReadJsonFile(preset)
                                                                            : PresetConfig(preset));
    return source;
  }
  source.name_ = absl::StrCat("--init_from=", options.init_from);
  ZEROTH_ASSIGN_OR_RETURN(HfDirectory directory, HfDirectory::Open(options.init_from));
  source.config_ = directory.config().json();
  source.directory_.emplace(std::move(directory));
  // Everything that can be wrong shows before any rank starts.
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
  ZEROTH_RETURN_IF_ERROR(CheckWeights(source.directory_->weights(), *model));
  if (!options.init_adapter.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(source.adapter_, InitAdapter::Open(options.init_adapter, *model));
  }
  return source;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> ModelSource::Build() const {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      ModelRegistry::Create(config_, model_options_);
  if (!model.ok() && directory_.has_value())
    return Annotate(model.status(), directory_->config().where());
  if (!model.ok()) return Annotate(model.status(), name_);
  return model;
}

ParameterReader ModelSource::Reader(uint64_t seed) const {
  return [this, seed](const Parameter& parameter, int64_t begin,
                      absl::Span<float> out) -> absl::Status {
    if (adapter_ != nullptr && adapter_->Has(parameter)) {
      return adapter_->Read(parameter, begin, out);
    }
    if (directory_.has_value()) {
      const WeightsSource& weights = directory_->weights();
      const std::string name = StoredName(weights, parameter.name());
      if (weights.Find(name) != nullptr) return weights.ReadElements(name, begin, out);
    }
    // What may be missing was decided in Open: adapters begin as in a model from scratch.
    parameter.initializer().Fill(seed, parameter.name(), begin, out);
    return absl::OkStatus();
  };
}

absl::Status ModelSource::NoTokenizer(int64_t vocab_size) const {
  const char* const found = directory_.has_value() ? ", which has no tokenizer files" : "";
  return absl::InvalidArgumentError(absl::StrCat(
      "no tokenizer for ", name_, found, ": text cannot become ids of its vocabulary of ",
      vocab_size,
      ". Give --tokenizer=PATH, a directory with a tokenizer.json, a tokenizer.model, or a "
      "vocab.json and a merges.txt, or --data as token files (.npy, .bin) that the model's own "
      "tokenizer has made. To train on bytes all the same, say so: --tokenizer=byte"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ModelSource::OpenTokenizer(const TrainOptions& options,
                                                                      bool has_text) const {
  const TokenizerOptions how = {options.parse_special};
  if (options.tokenizer == "byte") return std::make_unique<ByteTokenizer>();
  if (options.tokenizer != "auto") {
    auto tokenizer = zeroth::OpenTokenizer(options.tokenizer, how);
    if (!tokenizer.ok()) return Annotate(tokenizer.status(), "--tokenizer");
    return tokenizer;
  }
  const std::vector<std::string> files = TokenizerFiles("auto");
  if (!files.empty()) {
    auto tokenizer = zeroth::OpenTokenizer(directory_->path(), how);
    // Token files are no worse for a tokenizer that cannot be read.
    if (!tokenizer.ok() && !has_text) return nullptr;
    if (!tokenizer.ok()) {
      return Annotate(
          tokenizer.status(),
          absl::StrCat("no tokenizer for ", name_, " (--tokenizer names another one, or byte)"));
    }
    return tokenizer;
  }
  if (!has_text) return nullptr;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, Build());
  // What --tokenizer=byte trains, and its export, which has no tokenizer files.
  if (model->vocab_size() == ByteTokenizer::kVocabSize) return std::make_unique<ByteTokenizer>();
  return NoTokenizer(model->vocab_size());
}

std::vector<std::string> ModelSource::TokenizerFiles(const std::string& choice) const {
  if (choice == "byte") return {};
  if (choice != "auto") return FindTokenizerFiles(choice).value_or(std::vector<std::string>());
  return directory_.has_value() ? directory_->TokenizerFiles() : std::vector<std::string>();
}

}  // namespace zeroth
