// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_text_model.h"

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"

namespace zeroth {
namespace {

constexpr char kTextConfig[] = "text_config";

// A family of models of text and images.
struct ImageFamily {
  std::string model_type;
  std::string text_type;
  std::string text_architecture;
  // Prefixes, after "model.", of tensors that are not the text model's, and what they are.
  std::vector<absl::string_view> others;
  absl::string_view others_in_words;
  // transformers' default sizes of the text model, which published config.json files may omit.
  nlohmann::json defaults;
};

// Returns the family of this model_type, or null.
const ImageFamily* FindFamily(const HfConfig& config) {
  static const auto* const families =
      new std::vector<ImageFamily>{{"gemma3",
                                    "gemma3_text",
                                    "Gemma3ForCausalLM",
                                    {"vision_tower.", "multi_modal_projector."},
                                    "the vision tower and its projector",
                                    {{"vocab_size", 262208},
                                     {"hidden_size", 2304},
                                     {"intermediate_size", 9216},
                                     {"num_hidden_layers", 26},
                                     {"num_attention_heads", 8}}},
                                   {"qwen3_5",
                                    "qwen3_5_text",
                                    "Qwen3_5ForCausalLM",
                                    {"visual."},
                                    "the vision tower and the layers that predict further tokens",
                                    {{"vocab_size", 248320},
                                     {"hidden_size", 4096},
                                     {"intermediate_size", 12288},
                                     {"num_hidden_layers", 32},
                                     {"num_attention_heads", 16}}}};
  const auto type = config.json().find("model_type");
  for (const ImageFamily& family : *families) {
    if (type != config.json().end() && *type == family.model_type) return &family;
  }
  return nullptr;
}

bool IsOfOthers(const ImageFamily& family, absl::string_view name) {
  if (IsMtpTensor(name)) return true;
  absl::ConsumePrefix(&name, "model.");
  for (const absl::string_view prefix : family.others) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

// Returns the name that a tensor has in the model for text alone. Published files, and those of
// save_pretrained, have the first prefix; the modules of transformers from 4.52 on, and so a saved
// state_dict, have the second.
std::string NameInTextModel(absl::string_view stored) {
  for (const auto& [prefix, own] :
       {std::pair("language_model.model.", "model."), std::pair("model.language_model.", "model."),
        std::pair("language_model.lm_head.", "lm_head.")}) {
    if (absl::StartsWith(stored, prefix)) {
      return absl::StrCat(own, stored.substr(absl::string_view(prefix).size()));
    }
  }
  return std::string(stored);
}

// Immutable and thread-safe.
class TextWeights final : public WeightsSource {
 public:
  static absl::StatusOr<std::unique_ptr<TextWeights>> Create(
      const ImageFamily& family, std::shared_ptr<const WeightsSource> all) {
    std::unique_ptr<TextWeights> weights(new TextWeights(std::move(all)));
    for (const auto& [name, entry] : weights->all_->tensors()) {
      if (IsOfOthers(family, name)) {
        weights->left_out_ += entry.shape.numel();
        continue;
      }
      const auto [place, inserted] = weights->stored_.emplace(NameInTextModel(name), name);
      if (!inserted) {
        return InvalidArgument(weights->description(), ": tensors \"", place->second, "\" and \"",
                               name, "\" are both \"", place->first,
                               "\" of the language model; expected one of them");
      }
      weights->tensors_.emplace(place->first, entry);
    }
    return weights;
  }

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override {
    const auto stored = stored_.find(name);
    if (stored == stored_.end()) return MissingTensor(name);
    return all_->ReadElements(stored->second, begin, out);
  }
  // The number of elements of the tensors of other parts.
  int64_t left_out() const { return left_out_; }

 private:
  explicit TextWeights(std::shared_ptr<const WeightsSource> all)
      : WeightsSource(all->description()), all_(std::move(all)) {}

  const std::shared_ptr<const WeightsSource> all_;
  std::map<std::string, std::string, std::less<>> stored_;
  int64_t left_out_ = 0;
};

}  // namespace

bool HasTextModel(const HfConfig& config) { return FindFamily(config) != nullptr; }

absl::StatusOr<HfTextModel> ExtractTextModel(const HfConfig& config,
                                             std::shared_ptr<const WeightsSource> weights) {
  const ImageFamily* const family = FindFamily(config);
  if (family == nullptr) return InvalidArgument(config.where(), ": no model of text and images");
  const nlohmann::json& all = config.json();
  const auto found = all.find(kTextConfig);
  if (found == all.end() || !found->is_object()) {
    return InvalidArgument(config.where(), ": key \"", kTextConfig, "\" is ",
                           found == all.end() ? "missing" : found->type_name(),
                           ", expected an object: the text model of a \"", family->model_type,
                           "\"");
  }
  nlohmann::json text = *found;
  for (const auto& [key, value] : family->defaults.items()) text.emplace(key, value);
  for (const char* key : {"bos_token_id", "dtype", "eos_token_id", "pad_token_id",
                          "tie_word_embeddings", "torch_dtype"}) {
    if (config.Has(key)) text[key] = all.at(key);
  }
  text["model_type"] = family->text_type;
  text["architectures"] = {family->text_architecture};
  ZEROTH_ASSIGN_OR_RETURN(
      HfConfig of_text,
      HfConfig::Parse(text.dump(), absl::StrCat(config.where(), ", ", kTextConfig)));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<TextWeights> own,
                          TextWeights::Create(*family, std::move(weights)));
  std::string left_out;
  if (own->left_out() > 0) {
    left_out = absl::StrFormat("%s, %.2fM parameters", family->others_in_words,
                               static_cast<double>(own->left_out()) / 1e6);
  }
  return HfTextModel{std::move(of_text), std::move(own), std::move(left_out)};
}

}  // namespace zeroth
