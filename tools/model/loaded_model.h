// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_MODEL_LOADED_MODEL_H_
#define ZEROTH_TOOLS_MODEL_LOADED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/key_value_cache.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/tape.h"
#include "zeroth/train/model_source.h"

namespace zeroth {

struct LoadModelOptions {
  std::string model;  // as OpenModel takes it
  std::string base;
  std::string tokenizer = "auto";  // as --tokenizer of the trainer
  bool parse_special = false;
  std::string device = "cpu";
  // What weights are kept and computed in: fp32, bf16 or fp16.
  std::string precision = "fp32";
  int threads = 0;  // of the CPU; 0: all cores
};

// A model whose weights are in a device's memory, for inference by one rank; used by the thread
// that has opened it.
class LoadedModel {
 public:
  // Errors of OpenModel and of the model's configuration and weights, and InvalidArgument for
  // options that are wrong.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Open(const LoadModelOptions& options);

  LanguageModel& model() { return *model_; }
  // InvalidArgument, saying what to do, if nothing says which tokenizer the model has.
  absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer() const;
  // DataOptions::tokenizer_identity of that tokenizer, as the trainer has it.
  absl::StatusOr<std::string> TokenizerIdentity() const;
  // How the model writes conversations: `choice` as --chat_template of the trainer; `tokenizer`
  // outlives it.
  absl::StatusOr<ChatTemplate> OpenChat(const std::string& choice,
                                        const Tokenizer& tokenizer) const;
  // The tokens that end a text by the tokenizer, by config.json and by generation_config.json.
  absl::StatusOr<std::vector<int32_t>> StopTokens(const Tokenizer& tokenizer) const;

  // LanguageModel::Logits of one sequence.
  absl::StatusOr<Tensor> Logits(absl::Span<const int32_t> tokens, int64_t from,
                                KeyValueCache* cache);
  // The sum of -log p of the tokens from `from` on, each given all those before it in `tokens`;
  // from >= 1. A sequence of n tokens takes n - 1 of the model's positions.
  absl::StatusOr<double> NegativeLogLikelihood(absl::Span<const int32_t> tokens, int64_t from);

 private:
  LoadedModel(LoadModelOptions options, std::string directory, ModelSource source)
      : options_(std::move(options)),
        directory_(std::move(directory)),
        source_(std::move(source)) {}
  absl::Status ReadWeights(DType dtype);
  // What the trainer would be told of the tokenizer.
  TrainOptions TokenizerOptions() const;

  const LoadModelOptions options_;
  const std::string directory_;  // of the plain model's files
  const ModelSource source_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  Tape tape_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<LanguageModel> model_;
};

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_MODEL_LOADED_MODEL_H_
