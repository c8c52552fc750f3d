// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Opens the model in a GGUF file under Hugging Face's names and config, without converting the
// file.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// True for a path that ends in ".gguf".
bool IsGgufPath(absl::string_view path);

// The weights of a GGUF file under Hugging Face's names, with rows in Hugging Face's order.
// Quantised weights are F32 here, and dequantised as they are read. Immutable and thread-safe.
class GgufWeights final : public WeightsSource, public PackedBlocks {
 public:
  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;

  const GgufMetadata& metadata() const { return file_->metadata(); }
  // The number of tensors of multi-token prediction layers in the file, which are not among these.
  int64_t mtp_tensors() const { return mtp_tensors_; }
  absl::Status ReadBlocks(absl::string_view name, int64_t begin,
                          absl::Span<uint8_t> out) const override;

 private:
  friend absl::StatusOr<HfDirectory> OpenGgufModel(const std::string& path);
  GgufWeights(std::unique_ptr<const GgufFile> file, std::vector<TensorCopy> copies,
              TensorEntries tensors, int64_t mtp_tensors);

  const std::unique_ptr<const GgufFile> file_;
  std::map<std::string, TensorCopy, std::less<>> copies_;  // by Hugging Face's name
  const int64_t mtp_tensors_;
};

// Opens a GGUF file of a model, unquantised or in the formats of kGgufFormats. The directory has no
// tokenizer files, but see SetGgufTokenizer; its weights() are GgufWeights. Unimplemented for other
// quantised types, for families without a mapping, and for GPT-2, whose matrices are transposed in
// GGUF. Also the errors of GgufFile and PlanGgufImport.
absl::StatusOr<HfDirectory> OpenGgufModel(const std::string& path);
// Opens the model at `path`: a GGUF file by IsGgufPath, otherwise a Hugging Face directory. The
// errors of OpenGgufModel or of HfDirectory::Open.
absl::StatusOr<HfDirectory> OpenModelFiles(const std::string& path);

// Gives `model` the tokenizer and the chat template of a GGUF file, if the file has a vocabulary.
// One that is bad, or that tokenizer files cannot express, becomes model->tokenizer_problem().
// Errors of the file system.
absl::Status SetGgufTokenizer(const GgufMetadata& metadata, HfDirectory* model);

}  // namespace zeroth
