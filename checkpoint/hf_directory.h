// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// A Hugging Face model directory, opened for reading. Open checks config.json and the weights'
// headers. A model of text and images appears as its text model (hf_text_model.h), and gpt-oss's
// experts appear as separate tensors (hf_experts.h). Immutable and thread-safe; movable.
class HfDirectory {
 public:
  // NotFound if `path`, its config.json or its weights are missing; InvalidArgument if it is not a
  // directory or a file in it is bad. Messages list the files of a model directory.
  static absl::StatusOr<HfDirectory> Open(const std::string& path);
  // A model with weights from another source; `path` is the directory of all other files.
  HfDirectory(std::string path, HfConfig config, std::shared_ptr<const WeightsSource> weights)
      : path_(std::move(path)),
        tokenizer_path_(path_),
        config_(std::move(config)),
        weights_(std::move(weights)) {}

  // Uses these tokenizer files, contents by name. They are written to a temporary directory, which
  // lasts as long as this object and its copies. Errors of the file system.
  absl::Status SetTokenizerFiles(const std::map<std::string, std::string>& files);
  // Uses the tokenizer and the chat template of another directory, such as an adapter's, if it has
  // a tokenizer. InvalidArgument if it has only a part of a tokenizer's files, such as a template.
  absl::Status UseTokenizerOf(const std::string& directory);

  const std::string& path() const { return path_; }
  // The directory of the tokenizer files.
  const std::string& tokenizer_path() const { return tokenizer_path_; }
  // What messages name instead of tokenizer_path(), if SetTokenizerFiles made that: path(). Empty
  // otherwise.
  const std::string& tokenizer_owner() const { return tokenizer_owner_; }
  // Why the model has no tokenizer files although it comes with a vocabulary; empty otherwise.
  const std::string& tokenizer_problem() const { return tokenizer_problem_; }
  void set_tokenizer_problem(std::string problem) { tokenizer_problem_ = std::move(problem); }
  // The parts of the model that the configuration and the weights here leave out, in words; empty
  // if there are none.
  const std::string& left_out() const { return left_out_; }
  const HfConfig& config() const { return config_; }
  const WeightsSource& weights() const { return *weights_; }
  const std::shared_ptr<const WeightsSource>& shared_weights() const { return weights_; }
  // Paths of the tokenizer files that exist (vocab.json, merges.txt, tokenizer.json, ...).
  std::vector<std::string> TokenizerFiles() const;
  // Contents of these files by name.
  absl::StatusOr<std::map<std::string, std::string>> ReadTokenizerFiles() const;
  // The content of generation_config.json; none if there is no such file.
  absl::StatusOr<std::optional<std::string>> ReadGenerationConfig() const;

 private:
  std::string path_;
  std::string tokenizer_path_;
  std::string tokenizer_owner_;
  std::shared_ptr<const void> tokenizer_files_;  // removes them in the end
  std::string tokenizer_problem_;
  std::string left_out_;
  HfConfig config_;
  std::shared_ptr<const WeightsSource> weights_;
};

// How transformers generates with a model: sampling, and the tokens that end a text.
inline constexpr char kGenerationConfig[] = "generation_config.json";

// The names that transformers gives tokenizer files.
const std::vector<std::string>& HfTokenizerFileNames();

// True for the bias of a router's scores, which transformers and this program keep in fp32 whatever
// type other weights have.
bool StaysFp32(absl::string_view tensor);

// The weights of a Hugging Face directory, in one file or several. Immutable and thread-safe.
class HfWeights final : public WeightsSource {
 public:
  // Opens `directory`/model.safetensors, or every file of model.safetensors.index.json where there
  // is no single file. NotFound if there is neither; the message names other weight files that it
  // found, such as pytorch_model.bin. InvalidArgument if a file is bad, or if the index and the
  // files disagree: a file is missing or outside the directory, a file lacks a tensor, or the index
  // does not list one.
  static absl::StatusOr<std::unique_ptr<HfWeights>> Open(const std::string& directory);

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;
  // The same as TensorFile::RawBytes.
  absl::StatusOr<std::vector<uint8_t>> RawBytes(absl::string_view name, int64_t begin,
                                                int64_t end) const;

 private:
  using WeightsSource::WeightsSource;
  absl::Status AddFile(const std::string& file_name);
  absl::Status OpenSharded(const std::string& index_path);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;
};

}  // namespace zeroth
