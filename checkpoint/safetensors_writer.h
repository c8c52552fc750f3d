// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_
#define ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_layout.h"
#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// Writes a safetensors file piece by piece, in any order, without ever holding a tensor. The file
// appears under its name only in Finish, complete; a writer that is destroyed earlier leaves
// nothing behind. Equal declarations give equal bytes: tensors lie sorted by name, the data begins
// 64-byte aligned.
//
// Write and WriteBytes may be called from several threads at once (ranks writing their shards);
// Finish and the destructor must come after all of them.
class SafetensorsWriter {
 public:
  // What transformers wants to see before it loads a file.
  static std::map<std::string, std::string> DefaultMetadata() { return {{"format", "pt"}}; }

  // Creates a temporary file beside `path`, whose directory must exist. InvalidArgument as
  // LayOutSafetensors says.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, std::vector<TensorDeclaration> tensors,
      std::map<std::string, std::string> metadata = DefaultMetadata());

  // As TensorFileWriter's.
  absl::Status Write(absl::string_view name, int64_t begin, absl::Span<const float> values) {
    return file_->Write(name, begin, values);
  }
  absl::Status WriteBytes(absl::string_view name, int64_t begin, absl::Span<const uint8_t> bytes) {
    return file_->WriteBytes(name, begin, bytes);
  }
  absl::StatusOr<int64_t> FileOffset(absl::string_view name) const {
    return file_->FileOffset(name);
  }
  // All bytes of the file before the data.
  const std::string& header() const { return file_->header(); }
  absl::Status Finish() { return file_->Finish(); }

 private:
  explicit SafetensorsWriter(std::unique_ptr<TensorFileWriter> file) : file_(std::move(file)) {}

  const std::unique_ptr<TensorFileWriter> file_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_
