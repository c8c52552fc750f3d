// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_writer.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<TensorFileWriter>> GgufWriter::Create(
    const std::string& path, const GgufMetadata& metadata,
    const std::vector<TensorDeclaration>& tensors) {
  auto alignment = GgufAlignment(metadata);
  if (!alignment.ok()) return Annotate(alignment.status(), path);
  ZEROTH_ASSIGN_OR_RETURN(TensorLayout layout, LayOutTensors(path, tensors, *alignment));
  std::vector<std::pair<std::string, SafetensorsEntry>> order;
  for (const TensorDeclaration& tensor : tensors) {
    order.emplace_back(tensor.name, layout.entries.at(tensor.name));
  }
  auto header = SerializeGgufHeader(metadata, order);
  if (!header.ok()) return Annotate(header.status(), path);
  return TensorFileWriter::Create(path, *std::move(header), std::move(layout));
}

}  // namespace zeroth
