// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/safetensors_writer.h"
#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// Writes a GGUF file of version 3 piece by piece, in any order, without ever holding a tensor. The
// file appears under its name only in Finish, complete; a writer that is destroyed earlier leaves
// nothing behind. Threads as TensorFileWriter.
class GgufWriter {
 public:
  // Tensors lie in the file in the order given. Creates a temporary file beside `path`, whose
  // directory must exist. InvalidArgument for a repeated name, a size that overflows, or what
  // SerializeGgufHeader refuses.
  static absl::StatusOr<std::unique_ptr<GgufWriter>> Create(
      const std::string& path, const GgufMetadata& metadata,
      const std::vector<TensorDeclaration>& tensors);

  // As TensorFileWriter's.
  absl::Status Write(absl::string_view name, int64_t begin, absl::Span<const float> values) {
    return file_->Write(name, begin, values);
  }
  absl::Status WriteBytes(absl::string_view name, int64_t begin, absl::Span<const uint8_t> bytes) {
    return file_->WriteBytes(name, begin, bytes);
  }
  absl::Status Finish() { return file_->Finish(); }

 private:
  explicit GgufWriter(std::unique_ptr<TensorFileWriter> file) : file_(std::move(file)) {}

  const std::unique_ptr<TensorFileWriter> file_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_
