// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_MODEL_SOURCE_H_
#define ZEROTH_TRAIN_MODEL_SOURCE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/train/init_adapter.h"
#include "zeroth/train/options.h"

namespace zeroth {

// Where a run's model comes from: a preset, or a Hugging Face directory. Immutable after Open;
// shared by all ranks.
class ModelSource {
 public:
  static absl::StatusOr<ModelSource> Open(const TrainOptions& options);

  // The config.json that the model is built from.
  const nlohmann::json& config() const { return config_; }
  // A new model without values; one per rank.
  absl::StatusOr<std::unique_ptr<LanguageModel>> Build() const;
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
  // Files to hand on with the trained model.
  std::vector<std::string> TokenizerFiles(const std::string& choice) const;

 private:
  // That nothing says how text becomes the model's tokens, and what to do.
  absl::Status NoTokenizer(int64_t vocab_size) const;

  std::string name_;  // "--model=gpt2_124m": for messages
  nlohmann::json config_;
  ModelOptions model_options_;
  std::optional<HfDirectory> directory_;
  std::shared_ptr<const InitAdapter> adapter_;  // null: adapters begin anew
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_MODEL_SOURCE_H_
