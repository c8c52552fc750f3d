// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(file.bytes(), path));
  return std::unique_ptr<SafetensorsFile>(new SafetensorsFile(std::move(file), std::move(header)));
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.tensors.size());
  for (const auto& [name, entry] : header_.tensors) names.push_back(name);
  return names;
}

const SafetensorsEntry* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = header_.tensors.find(name);
  return found == header_.tensors.end() ? nullptr : &found->second;
}

absl::StatusOr<absl::Span<const uint8_t>> SafetensorsFile::RawBytes(absl::string_view name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) return MissingTensor(name);
  return file_.bytes().subspan(static_cast<size_t>(header_.data_begin + entry->begin),
                               static_cast<size_t>(entry->end - entry->begin));
}

absl::Status SafetensorsFile::ReadElements(absl::string_view name, int64_t begin,
                                           absl::Span<float> out) const {
  ZEROTH_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, RawBytes(name));
  return ConvertElements(name, *Find(name), bytes, begin, out);
}

}  // namespace zeroth
