// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/formats/hf_tokenizer.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/train/new_token_rows.h"

namespace zeroth {

// Returns `options` with the LoRA options of the adapter in init_adapter, if that is set, and with
// the adapter's base model unless init_from names one. InvalidArgument if flags contradict the
// adapter or the base model is unknown; NotFound if the base model is not there. Also the errors of
// PeftDirectory.
absl::StatusOr<TrainOptions> WithInitAdapter(TrainOptions options);

// Returns seq_len, or if that is 0 the model's positions, but at most 128 from scratch and 2048
// with --init_from. Returns that limit if the model cannot be built; ModelSource::Open says why.
int64_t SeqLenOf(const TrainOptions& options);

// One tensor of PEFT's files of an adapter.
struct PeftTensor {
  std::string name;
  Shape shape;
  bool transposed = false;  // the model holds its transpose
};
// Returns the tensors of all adapters of `model` (A, B and DoRA's magnitudes), by the names of the
// model's parameters.
std::map<std::string, PeftTensor> PeftLoraTensors(const LanguageModel& model);
// Returns PeftLoraTensors and the parameters that are trained in full beside the adapters.
std::map<std::string, PeftTensor> PeftAdapterTensors(const LanguageModel& model);

// If --new_tokens is set, returns all added tokens of the tokenizer at `path` after they are added
// to it; otherwise an empty list. InvalidArgument if `path` is "", which means that there is no
// tokenizer. Errors of AddNewTokens and the files.
absl::StatusOr<std::vector<AddedToken>> NewTokensOf(const TrainOptions& options,
                                                    const std::string& path);

// A snapshot of a tokenizer's files.
struct TokenizerContent {
  std::map<std::string, std::string> files;  // by name; exported with the trained model
  std::string identity;                      // DataOptions::tokenizer_identity
};

struct InitAdapter;
class PackedBlocks;

// The preset of a run that names no model.
inline constexpr char kDefaultModel[] = "gpt2_nano";

// The origin of a run's model: a preset, a config.json, a Hugging Face directory, or a GGUF file.
// Immutable after Open, and shared by all ranks.
class ModelSource {
 public:
  // InvalidArgument lists weights of --init_from that are missing, unexpected or of another shape,
  // and the layers that only the model or only --init_adapter adapts. Also the errors of the files.
  static absl::StatusOr<ModelSource> Open(const TrainOptions& options);
  // Uses the plain model of a directory. Messages call the model `name`.
  // `new_tokens` are all added tokens of a tokenizer that got new ones. The vocabulary is at least
  // as large as they need it.
  static absl::StatusOr<ModelSource> FromDirectory(std::string name, HfDirectory directory,
                                                   const ModelOptions& options = {},
                                                   std::vector<AddedToken> new_tokens = {});

  // The configuration that the model is built from.
  const nlohmann::json& config() const { return config_; }
  // Returns a new model without values. Every rank builds its own. With `layers`, it has that
  // number of layers; InvalidArgument if the configuration has no such number.
  absl::StatusOr<std::unique_ptr<LanguageModel>> Build(
      std::optional<int64_t> layers = std::nullopt) const;
  // Returns a reader of the model's initial values, for Sharding::Load. They come from the files,
  // of which each rank reads only its ranges, or from the initializers and `seed`, also for
  // adapters that the files lack. The reader must not outlive this object.
  ParameterReader Reader(uint64_t seed) const;
  // Opens the tokenizer that --tokenizer names. If nothing names one, returns null without text
  // (token files need none), and with text InvalidArgument, which names the missing part.
  absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const TrainOptions& options,
                                                           bool has_text) const;
  // Reads the files that OpenTokenizer opens, and the other files beside them for a tokenizer; the
  // byte tokenizer has none. Errors of ReadFile.
  absl::StatusOr<TokenizerContent> ReadTokenizer(const TrainOptions& options) const;
  // Returns null if the model is not from a directory.
  const HfDirectory* directory() const { return directory_.has_value() ? &*directory_ : nullptr; }
  // The directory of the tokenizer that --tokenizer=auto means; empty: none. An adapter that is
  // trained further replaces it, if it has a tokenizer.
  std::string tokenizer_path() const {
    return directory_.has_value() ? directory_->tokenizer_path() : "";
  }
  // What messages name instead of tokenizer_path() if the tokenizer is a GGUF file's; else empty.
  std::string tokenizer_owner() const {
    return directory_.has_value() ? directory_->tokenizer_owner() : "";
  }
  // The number of tensors of multi-token prediction (MTP) layers that the model's files have, but
  // the model does not: they are neither trained nor exported.
  int64_t ignored_mtp_tensors() const { return ignored_mtp_tensors_; }
  // Returns TokenIds (below) for this model; those of `tokenizer` if it is trained from scratch.
  nlohmann::json TokenIds(const Tokenizer* tokenizer) const;
  // Returns the generation_config.json beside the model. nullopt if there is none, or if the model
  // is trained on bytes: the ids in the file then mean other tokens. `tokenizer` may be null.
  absl::StatusOr<std::optional<std::string>> ReadGenerationConfig(const Tokenizer* tokenizer) const;

 private:
  // Returns the paths of the files of --tokenizer=`choice`.
  std::vector<std::string> TokenizerFiles(const std::string& choice) const;
  absl::StatusOr<std::unique_ptr<LanguageModel>> BuildFrom(const nlohmann::json& config) const;
  void GrowVocabulary();
  // Like Reader, but does not pack weights or compute DoRA's initial magnitudes from the weights.
  ParameterReader StoredReader(uint64_t seed) const;

  std::string name_;  // in messages, as "--model=gpt2_124m"
  nlohmann::json config_;
  ModelOptions model_options_;
  std::optional<HfDirectory> directory_;
  const PackedBlocks* blocks_ = nullptr;  // the directory's weights, if they are PackedBlocks
  int64_t ignored_mtp_tensors_ = 0;
  bool assumes_mxfp4_ = false;  // packs experts as published, without files (plans, --resume)
  std::vector<AddedToken> new_tokens_;          // all added tokens, with --new_tokens
  NewTokenRows new_token_rows_;                 // rows of new tokens
  std::shared_ptr<const InitAdapter> adapter_;  // null: adapters start from their initializers
};

// Returns the ids of special tokens for the exported config.json. They are always written: without
// them transformers assumes default ids, such as GPT-2's 50256, which a byte model does not have.
// The ids are, in this order: the byte tokenizer's if the model was trained on bytes; those of
// `source`, the config.json that the model came from; the tokenizer's; or null if nothing is known.
// `tokenizer` may be null.
nlohmann::json TokenIds(const nlohmann::json& source, const Tokenizer* tokenizer);

// Makes `end_of_turn` the first "eos_token_id" of config.json or generation_config.json, before
// those that are there.
void AddEndOfTurn(int32_t end_of_turn, nlohmann::json& config);

}  // namespace zeroth
