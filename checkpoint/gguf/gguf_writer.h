// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// Serializes the header of a file, up to and including the padding before the data. `tensors` are
// in the file's order; their ranges must be aligned. InvalidArgument for what a reader would
// refuse: an empty key or name, one that is too long, too many dimensions, a type that the format
// lacks.
absl::StatusOr<std::string> SerializeGgufHeader(
    const GgufMetadata& metadata,
    const std::vector<std::pair<std::string, SafetensorsEntry>>& tensors);

// Writers of GGUF files of version 3.
struct GgufWriter {
  // Creates a temporary file beside `path`, whose directory must exist. Tensors lie in the given
  // order. InvalidArgument for a repeated name, a size that overflows, or what SerializeGgufHeader
  // refuses.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(
      const std::string& path, const GgufMetadata& metadata,
      const std::vector<TensorDeclaration>& tensors);
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_
