// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GPT-2 models as llm.c stores them (gpt2_124M.bin, gpt2_124M_bf16.bin, the model_*.bin of its
// training runs): 256 little-endian int32 of header, then every parameter without a gap, each kind
// of parameter for all layers.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/random_access_file.h"

namespace zeroth {

// True if `head` begins as llm.c's models do.
bool HasLlmcModelMagic(absl::Span<const uint8_t> head);

// A model file of llm.c; Open checks its header and size. Tensors have Hugging Face's names but
// llm.c's layout: linear layers are [out, in], while Hugging Face's GPT-2 has [in, out]. The rows
// that pad the vocabulary are left out. Immutable and thread-safe.
class LlmcModelFile final : public TensorFile {
 public:
  // NotFound or PermissionDenied from the file system. Unimplemented for other versions than 3
  // (fp32) and 5 (bf16), and for llm.c's Llama 3. InvalidArgument for a header that describes no
  // model, and for a file whose length is not exactly what its header implies. Both are checked
  // before anything is allocated.
  static absl::StatusOr<std::unique_ptr<LlmcModelFile>> Open(const std::string& path);

  const HfConfig& config() const { return config_; }

 private:
  // The entries' ranges count from the beginning of the file.
  LlmcModelFile(RandomAccessFile file, TensorEntries tensors, HfConfig config)
      : TensorFile(std::move(file), /*data_begin=*/0, std::move(tensors)),
        config_(std::move(config)) {}

  const HfConfig config_;
};

// Writes `model` as a Hugging Face directory. llm.c's files hold no tokenizer.
absl::Status ConvertLlmcToHf(const LlmcModelFile& model, const std::string& directory,
                             const HfConvertOptions& options = {});

}  // namespace zeroth
