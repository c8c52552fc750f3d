// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Converts whole models between Hugging Face directories and GGUF files, one tensor after the
// other, in a few MiB of memory whatever the model's size.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_mix.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {

enum class GgufVocabularySource {
  kNone,   // ids in, ids out
  kByte,   // the trainer's byte tokenizer
  kFiles,  // the directory's tokenizer files
};

struct GgufExportOptions {
  // Type of the matrices; if empty, each keeps its type. Vectors and position embeddings are always
  // F32, as llama.cpp requires. fp16 refuses values that it cannot hold.
  std::optional<DType> dtype;
  // Quantises the matrices; `dtype` is then not used.
  std::optional<GgufMix> mix;
  GgufVocabularySource vocabulary = GgufVocabularySource::kFiles;
  // general.name; empty: no such key.
  std::string name;
};

// Writes `model` to a GGUF file at `path`, which appears whole or not at all. Unimplemented for
// model families without a mapping, and for configs that llama.cpp would compute differently
// (gguf_config.h). InvalidArgument for tensors that the family does not have and, with kFiles, for
// a directory without tokenizer files. OutOfRange, naming the tensor, for values that fp16 or
// quantised blocks cannot hold. Adds sentences for the user to `notes`, about tensors that were
// left out and about the types of a quantised file.
absl::Status ConvertHfToGguf(const HfDirectory& model, const std::string& path,
                             const GgufExportOptions& options = {},
                             std::vector<std::string>* notes = nullptr);

// Returns the error that ConvertHfToGguf would return for the vocabulary of `model`. OK if the
// family or its kind of tokenizer has no mapping at all.
absl::Status CheckGgufVocabulary(const HfDirectory& model);

// Returns how to make Hugging Face's tensors from `model`'s: their names, transpositions and row
// orders. Dtypes do not change. A tied head's second copy and tensors that Hugging Face computes
// are left out. Unimplemented and InvalidArgument as for ConvertGgufToHf.
absl::StatusOr<std::vector<TensorCopy>> GgufToHfCopies(const GgufFile& model);

// How a GGUF model becomes a Hugging Face model.
struct GgufImport {
  HfConfig config;
  std::vector<TensorCopy> copies;
  std::vector<TensorDeclaration> tensors;  // of `copies`, in order
  int64_t mtp_tensors = 0;  // of the multi-token prediction layers, which are left out
};
// InvalidArgument and Unimplemented as for ConvertGgufToHf.
absl::StatusOr<GgufImport> PlanGgufImport(const GgufFile& model);

// Parts of the file that an import left out, in sentences for the user.
using GgufImportNotes = std::vector<std::string>;

// Returns the tokenizer's files by name; none if the file has no vocabulary. If no files can
// express it, returns none and adds the reason to `notes`.
absl::StatusOr<std::map<std::string, std::string>> GgufTokenizerFiles(const GgufMetadata& metadata,
                                                                      GgufImportNotes* notes);

// Writes `model`, which is not an adapter, as a Hugging Face directory at `directory`: config.json,
// model.safetensors, and tokenizer files if they can express the file's tokenizer. A head that
// equals the embedding counts as tied, because older exporters of GPT-2 stored it twice.
absl::StatusOr<GgufImportNotes> ConvertGgufToHf(const GgufFile& model, const std::string& directory,
                                                const HfConvertOptions& options = {});

}  // namespace zeroth
