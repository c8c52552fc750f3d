// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// Writers of GGUF files of version 3.
struct GgufWriter {
  // Tensors lie in the file in the order given. Creates a temporary file beside `path`, whose
  // directory must exist. InvalidArgument for a repeated name, a size that overflows, or what
  // SerializeGgufHeader refuses.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(
      const std::string& path, const GgufMetadata& metadata,
      const std::vector<TensorDeclaration>& tensors);
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_WRITER_H_
