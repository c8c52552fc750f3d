// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors.h"

#include "absl/strings/str_cat.h"

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
  const SafetensorsEntry& entry = *Find(name);
  if (!ConvertsToFloat32(entry.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": tensor \"", name, "\" is ",
                                                   SafetensorsDTypeName(entry.dtype),
                                                   ", expected F32, F16, BF16 or F64"));
  }
  const int64_t numel = entry.shape.numel();
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > numel || begin > numel - count) {
    return absl::OutOfRangeError(absl::StrCat(
        file_.path(), ": elements [", begin, ", ", begin, " + ", count, ") of tensor \"", name,
        "\", which has ", numel, " in shape ", entry.shape.ToString()));
  }
  if (count == 0) return absl::OkStatus();
  ConvertToFloat32(entry.dtype, bytes.data() + begin * (BitsOf(entry.dtype) / 8), out);
  return absl::OkStatus();
}

}  // namespace zeroth
