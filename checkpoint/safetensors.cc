// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(SafetensorsHeader header, ReadSafetensorsHeader(file));
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

absl::StatusOr<std::vector<uint8_t>> SafetensorsFile::RawBytes(absl::string_view name,
                                                               int64_t begin, int64_t end) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) return MissingTensor(name);
  return ReadRaw(file_, header_.data_begin, *entry, begin, end);
}

absl::Status SafetensorsFile::ReadElements(absl::string_view name, int64_t begin,
                                           absl::Span<float> out) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) return MissingTensor(name);
  return ReadStored(file_, header_.data_begin, name, *entry, begin, out);
}

}  // namespace zeroth
