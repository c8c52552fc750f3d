// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_MODEL_SOURCE_H_
#define ZEROTH_TRAIN_MODEL_SOURCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/train/options.h"

namespace zeroth {

// `options` with the rank, alpha and targets of the adapter in init_adapter, and the model that it
// was made for if no other is named; without it as they are. InvalidArgument where flags say
// otherwise than the adapter, or it does not say what it was made for; NotFound if that is not
// here; errors of PeftDirectory.
absl::StatusOr<TrainOptions> WithInitAdapter(TrainOptions options);

// The adapter's halves as a model's parameters. Immutable and thread-safe.
class InitAdapter {
 public:
  // InvalidArgument lists the layers that only the model or only the adapter adapts, or names the
  // half of another shape.
  static absl::StatusOr<std::shared_ptr<const InitAdapter>> Open(const std::string& path,
                                                                 const LanguageModel& model);

  // Whether this is one of the halves.
  bool Has(const Parameter& parameter) const { return halves_.count(parameter.name()) > 0; }
  // out[i] = element begin + i.
  absl::Status Read(const Parameter& parameter, int64_t begin, absl::Span<float> out) const;

 private:
  struct Half {
    std::string stored;
    bool transposed = false;
  };
  explicit InitAdapter(PeftDirectory adapter) : adapter_(std::move(adapter)) {}

  const PeftDirectory adapter_;
  std::map<std::string, Half> halves_;  // by the parameter's name
};

// A tokenizer's files, as they were read at one time.
struct TokenizerContent {
  std::map<std::string, std::string> files;  // by name: to hand on with the trained model
  std::string identity;                      // DataOptions::tokenizer_identity
};

// Where a run's model comes from: a preset, or a Hugging Face directory. Immutable after Open;
// shared by all ranks.
class ModelSource {
 public:
  static absl::StatusOr<ModelSource> Open(const TrainOptions& options);
  // The plain model in a directory; messages call it `name`.
  static absl::StatusOr<ModelSource> FromDirectory(std::string name, HfDirectory directory,
                                                   const ModelOptions& options = {});

  // The config.json that the model is built from.
  const nlohmann::json& config() const { return config_; }
  // What messages call it: "--model=gpt2_124m".
  const std::string& name() const { return name_; }
  // A new model without values; one per rank.
  absl::StatusOr<std::unique_ptr<LanguageModel>> Build() const;
  // The same with so many layers. InvalidArgument if the configuration says nothing of layers.
  absl::StatusOr<std::unique_ptr<LanguageModel>> BuildWithLayers(int64_t layers) const;
  // Fills a sharding of such a model: from the files, each rank reading its own ranges, or by its
  // initializers from `seed`, as adapters are that the files do not have. Weights that are missing,
  // unexpected or of another shape are an error that lists them.
  absl::Status Fill(Sharding& sharding, uint64_t seed) const { return sharding.Load(Reader(seed)); }
  // The same, range by range. This object outlives it.
  ParameterReader Reader(uint64_t seed) const;
  // As --tokenizer says. Null where nothing says which one it is, and `has_text` is false: token
  // files need none. With text, that is an InvalidArgument which says what is missing.
  absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const TrainOptions& options,
                                                           bool has_text) const;
  // What OpenTokenizer opens; no files if that is made of none. Errors of ReadFile.
  absl::StatusOr<TokenizerContent> ReadTokenizer(const TrainOptions& options) const;

 private:
  // Those of --tokenizer=`choice`.
  std::vector<std::string> TokenizerFiles(const std::string& choice) const;
  absl::StatusOr<std::unique_ptr<LanguageModel>> BuildFrom(const nlohmann::json& config) const;
  // That nothing says how text becomes the model's tokens, and what to do.
  absl::Status NoTokenizer(int64_t vocab_size) const;

  std::string name_;
  nlohmann::json config_;
  ModelOptions model_options_;
  std::optional<HfDirectory> directory_;
  std::shared_ptr<const InitAdapter> adapter_;  // null: adapters begin anew
};

// What the exported config.json says of special tokens, always: where it says nothing, transformers
// takes its own models' ids, which GPT-2's 50256 is beyond a byte model's vocabulary. They are the
// byte tokenizer's where the text was bytes, those of `source`, the config.json that the model came
// from, where it has them, the tokenizer's, or null where nothing is known. `tokenizer` may be
// null.
nlohmann::json TokenIds(const nlohmann::json& source, const Tokenizer* tokenizer);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_MODEL_SOURCE_H_
