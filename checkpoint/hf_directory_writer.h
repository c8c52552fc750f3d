// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/expert_stacker.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/temporary_path.h"

namespace zeroth {

enum class HfDirectoryKind {
  kModel,    // config.json and model.safetensors
  kAdapter,  // PEFT's adapter_config.json and adapter_model.safetensors
};

struct HfDirectoryOptions {
  HfDirectoryKind kind = HfDirectoryKind::kModel;

  // For a model: most bytes of tensors in one weight file, as transformers' max_shard_size; a
  // larger tensor has a separate file. 0: one file for all tensors. Several files are named
  // model-00001-of-00003.safetensors, and model.safetensors.index.json maps tensors to files.
  int64_t max_shard_bytes = 0;
};

// Writes a model directory that transformers and safetensors load unchanged: config.json,
// model.safetensors (or several files with an index) and tokenizer files. Everything goes to a
// temporary sibling directory, which Finish renames: the directory appears whole or not at all, and
// an earlier model of that name stays intact until then. A writer that is destroyed before Finish
// leaves nothing behind. If the process is killed, the next writer for the same name cleans up. On
// a file system that cannot exchange two names, the earlier model may then be called
// PATH.previous-DIGITS: it gets its name back, or is removed if the new model already has that
// name.
//
// The experts of gpt-oss come as separate tensors, and are written as stacks (hf_experts.h) in the
// declared type. An expert's gate_proj and up_proj are held until both are complete.
//
// Several threads may call Write at once. The other calls come from one thread, before or after all
// of these.
class HfDirectoryWriter {
 public:
  // Creates missing parents of `path`. AlreadyExists if `path` exists and is neither empty nor a
  // directory of the same kind: this class deletes nothing that it could not have written.
  // InvalidArgument for tensors as SafetensorsWriter says, and for negative options.
  static absl::StatusOr<std::unique_ptr<HfDirectoryWriter>> Create(
      const std::string& path, const HfConfig& config, std::vector<TensorDeclaration> tensors,
      const HfDirectoryOptions& options = {});

  HfDirectoryWriter(const HfDirectoryWriter&) = delete;
  HfDirectoryWriter& operator=(const HfDirectoryWriter&) = delete;
  ~HfDirectoryWriter();

  // Writes a tokenizer file, or a model's generation_config.json. InvalidArgument for any other
  // `name`: see HfTokenizerFileNames().
  absl::Status WriteTokenizerFile(const std::string& name, absl::string_view content);

  // The same as TensorFileWriter::Write.
  absl::Status Write(absl::string_view name, int64_t begin, absl::Span<const float> values);

  // Checks that every element was written, flushes everything, and renames the directory.
  absl::Status Finish();

 private:
  HfDirectoryWriter(std::string path, TemporaryPath temporary, HfDirectoryKind kind);
  absl::Status CreateWeights(std::vector<std::vector<TensorDeclaration>> files);
  absl::Status WriteStored(absl::string_view name, int64_t begin, absl::Span<const float> values);

  const std::string path_;
  const std::string temporary_;
  const FileDescriptor lock_;  // on temporary_; tells other writers that this one is alive
  const HfDirectoryKind kind_;
  std::vector<std::unique_ptr<TensorFileWriter>> files_;
  std::map<std::string, TensorFileWriter*, std::less<>> file_of_;  // by tensor
  std::unique_ptr<ExpertStacker> stacker_;  // null unless the family's files stack experts
  bool finished_ = false;
};

struct HfConvertOptions {
  // The type of all tensors except those of StaysFp32: fp32, bf16 or fp16; if empty, each tensor
  // keeps its type. bf16 and fp16 round to nearest; fp16 refuses values that it cannot hold.
  std::optional<DType> dtype;
  HfDirectoryOptions directory;
};

// Writes a copy of `model`, of any family, with its config, generation config and tokenizer files,
// in another type or divided into other files. Holds a few MiB at a time, and one expert of
// gpt-oss. InvalidArgument names a tensor that is not floating-point; OutOfRange names a value that
// fp16 cannot hold; errors of HfDirectoryWriter.
absl::Status ConvertHfToHf(const HfDirectory& model, const std::string& directory,
                           const HfConvertOptions& options = {});

// Writes a model directory out of parts: `copies` of tensors of `source`, whose dtypes `options`
// decide, a config, and files for WriteTokenizerFile (content by name). Errors as above.
absl::Status WriteHfDirectory(const WeightsSource& source, HfConfig config,
                              std::vector<TensorCopy> copies,
                              const std::map<std::string, std::string>& tokenizer_files,
                              const std::string& directory, const HfConvertOptions& options);

// Returns `config` with the dtype of its weights set. The key is the one that the config has:
// "dtype" (transformers 4.56 and later) or "torch_dtype", which is also the default.
absl::StatusOr<HfConfig> WithDType(const HfConfig& config, DType dtype);

}  // namespace zeroth
