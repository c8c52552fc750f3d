// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_text_model.h"

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kTextConfig[] = "text_config";

bool IsOfImages(absl::string_view name) {
  absl::ConsumePrefix(&name, "model.");
  return absl::StartsWith(name, "vision_tower.") ||
         absl::StartsWith(name, "multi_modal_projector.");
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
      std::shared_ptr<const WeightsSource> all) {
    std::unique_ptr<TextWeights> weights(new TextWeights(std::move(all)));
    for (const auto& [name, entry] : weights->all_->tensors()) {
      if (IsOfImages(name)) {
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

bool HasTextModel(const HfConfig& config) {
  const auto type = config.json().find("model_type");
  return type != config.json().end() && *type == "gemma3";
}

absl::StatusOr<HfTextModel> ExtractTextModel(const HfConfig& config,
                                             std::shared_ptr<const WeightsSource> weights) {
  const nlohmann::json& all = config.json();
  const auto found = all.find(kTextConfig);
  if (found == all.end() || !found->is_object()) {
    return InvalidArgument(config.where(), ": key \"", kTextConfig, "\" is ",
                           found == all.end() ? "missing" : found->type_name(),
                           ", expected an object: the text model of a \"gemma3\"");
  }
  nlohmann::json text = *found;
  // Published files leave out what equals the default of Gemma3TextConfig.
  const nlohmann::json defaults = {{"vocab_size", 262208},
                                   {"hidden_size", 2304},
                                   {"intermediate_size", 9216},
                                   {"num_hidden_layers", 26},
                                   {"num_attention_heads", 8}};
  for (const auto& [key, value] : defaults.items()) text.emplace(key, value);
  for (const char* key : {"bos_token_id", "dtype", "eos_token_id", "pad_token_id",
                          "tie_word_embeddings", "torch_dtype"}) {
    if (config.Has(key)) text[key] = all.at(key);
  }
  text["model_type"] = "gemma3_text";
  text["architectures"] = {"Gemma3ForCausalLM"};
  ZEROTH_ASSIGN_OR_RETURN(
      HfConfig of_text,
      HfConfig::Parse(text.dump(), absl::StrCat(config.where(), ", ", kTextConfig)));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<TextWeights> own,
                          TextWeights::Create(std::move(weights)));
  std::string left_out;
  if (own->left_out() > 0) {
    left_out = absl::StrFormat("the vision tower and its projector, %.2fM parameters",
                               static_cast<double>(own->left_out()) / 1e6);
  }
  return HfTextModel{std::move(of_text), std::move(own), std::move(left_out)};
}

}  // namespace zeroth
