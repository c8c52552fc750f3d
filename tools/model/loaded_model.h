// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/key_value_cache.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/tape.h"
#include "zeroth/train/model_source.h"

namespace zeroth {

struct LoadModelOptions {
  std::string model;  // a path for OpenModel
  std::string base;
  std::string tokenizer = "auto";  // as --tokenizer of the trainer
  bool parse_special = false;
  std::string device = "cpu";
  // Type of the weights and of computation: fp32, bf16 or fp16.
  std::string precision = "fp32";
  int threads = 0;  // of the CPU; 0: all cores
};

// Parses the command line of a program that uses a model, and changes to the user's directory. The
// flags for the model appear in --help with the program's own flags, and their values are returned.
// InvalidArgument for an argument that is not a flag.
absl::StatusOr<LoadModelOptions> ParseModelFlags(absl::string_view usage, int argc, char** argv);

// A model in a device's memory, for inference by one rank. Only the thread that has opened it may
// use it.
class LoadedModel {
 public:
  // InvalidArgument for wrong options. Also errors of OpenModel and of the model's configuration
  // and weights.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Open(const LoadModelOptions& options);

  LanguageModel& model() { return *model_; }
  // Opens the model's tokenizer. InvalidArgument, which says what to do, if it is unknown.
  absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer() const;
  // Returns the tokenizer's DataOptions::tokenizer_identity, equal to the trainer's.
  absl::StatusOr<std::string> TokenizerIdentity() const;
  // Returns the path of the tokenizer, as OpenChatTemplate takes it.
  std::string TokenizerPath() const;
  // Returns what messages name instead of that path if it is temporary; else empty.
  std::string TokenizerOwner() const;
  // Opens the template for conversations. `choice` is as --chat_template of the trainer.
  // `tokenizer` outlives the result.
  absl::StatusOr<ChatTemplate> OpenChat(const std::string& choice,
                                        const Tokenizer& tokenizer) const;
  // Returns the tokens that end a text, by the tokenizer, config.json and generation_config.json.
  absl::StatusOr<std::vector<int32_t>> StopTokens(const Tokenizer& tokenizer) const;

  // The same as LanguageModel::Logits, for one sequence.
  absl::StatusOr<Tensor> Logits(absl::Span<const int32_t> tokens, int64_t from,
                                KeyValueCache* cache);
  // Returns the logits, [batch, seq, vocab], of a batch, whose documents attend to themselves if it
  // says where they begin.
  absl::StatusOr<std::vector<float>> Logits(const Batch& batch);
  // Returns the sum of -log p of the tokens from index `from` >= 1 on, each given all tokens before
  // it. A sequence of n tokens needs n - 1 of the model's positions.
  absl::StatusOr<double> NegativeLogLikelihood(absl::Span<const int32_t> tokens, int64_t from);

 private:
  LoadedModel(LoadModelOptions options, std::string directory, ModelSource source)
      : options_(std::move(options)),
        directory_(std::move(directory)),
        source_(std::move(source)) {}
  absl::Status ReadWeights(DType dtype);
  // The trainer's options for this tokenizer.
  TrainOptions TokenizerOptions() const;

  const LoadModelOptions options_;
  const std::string directory_;  // with the plain model's files
  const ModelSource source_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  Tape tape_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<LanguageModel> model_;
};

}  // namespace zeroth
