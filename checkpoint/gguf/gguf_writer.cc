// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_writer.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status TooLarge(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": the sizes of the tensors overflow 63 bits"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufWriter>> GgufWriter::Create(
    const std::string& path, const GgufMetadata& metadata,
    const std::vector<TensorDeclaration>& tensors) {
  auto alignment = GgufAlignment(metadata);
  if (!alignment.ok()) return Annotate(alignment.status(), path);
  std::vector<std::pair<std::string, SafetensorsEntry>> order;
  TensorFileWriter::Tensors entries;
  int64_t offset = 0;
  for (const TensorDeclaration& tensor : tensors) {
    SafetensorsEntry entry;
    entry.dtype = ToSafetensorsDType(tensor.dtype);
    entry.shape = tensor.shape;
    auto bytes = SafetensorsBytes(entry.dtype, entry.shape.dims());
    if (!bytes.ok()) {
      return Annotate(bytes.status(), absl::StrCat(path, ": tensor \"", tensor.name, "\""));
    }
    entry.begin = offset;
    if (__builtin_add_overflow(offset, *bytes, &entry.end) ||
        __builtin_add_overflow(entry.end, *alignment - 1, &offset)) {
      return TooLarge(path);
    }
    offset -= offset % *alignment;
    if (!entries.emplace(tensor.name, entry).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor \"", tensor.name, "\" is declared twice"));
    }
    order.emplace_back(tensor.name, entry);
  }
  auto header = SerializeGgufHeader(metadata, order);
  if (!header.ok()) return Annotate(header.status(), path);
  if (__builtin_add_overflow(offset, static_cast<int64_t>(header->size()), &offset)) {
    return TooLarge(path);
  }
  offset -= static_cast<int64_t>(header->size());
  ZEROTH_ASSIGN_OR_RETURN(
      auto file, TensorFileWriter::Create(path, *std::move(header), std::move(entries), offset));
  return std::unique_ptr<GgufWriter>(new GgufWriter(std::move(file)));
}

}  // namespace zeroth
