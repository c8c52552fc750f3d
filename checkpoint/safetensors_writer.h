// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_
#define ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// The layout of a safetensors file: the header, then the data.
struct SafetensorsLayout {
  std::string header;    // its length is a multiple of 64
  TensorLayout tensors;  // in the order of names, without gaps
};

// Equal declarations give equal headers. `path` is for messages. InvalidArgument for an empty,
// repeated, reserved or non-UTF-8 name, a size that overflows, or more than a header may hold.
absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata);

// Writers of safetensors files. Equal declarations give equal bytes: tensors are sorted by name,
// and the data begins 64-byte aligned.
struct SafetensorsWriter {
  // The metadata without which transformers does not load a file.
  static std::map<std::string, std::string> DefaultMetadata() { return {{"format", "pt"}}; }

  // Creates a temporary file beside `path`, whose directory must exist. InvalidArgument as
  // LayOutSafetensors says.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(
      const std::string& path, std::vector<TensorDeclaration> tensors,
      const std::map<std::string, std::string>& metadata = DefaultMetadata());
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SAFETENSORS_WRITER_H_
