// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors_writer.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    std::map<std::string, std::string> metadata) {
  ZEROTH_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                          LayOutSafetensors(path, std::move(tensors), metadata));
  ZEROTH_ASSIGN_OR_RETURN(
      auto file, TensorFileWriter::Create(path, std::move(layout.header), std::move(layout.entries),
                                          layout.data_bytes));
  return std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter(std::move(file)));
}

}  // namespace zeroth
