// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kDataAlignment = 64;

using Json = nlohmann::json;

std::string JsonString(absl::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("a tensor has an empty name");
  if (name == "__metadata__") {
    return absl::InvalidArgumentError(
        "a tensor is named \"__metadata__\", which the format reserves");
  }
  // The library replaces what is not UTF-8, so a name that changes was not UTF-8.
  if (Json::parse(JsonString(name), nullptr, false) != Json(std::string(name))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor name \"", JsonString(name), "\" is not UTF-8"));
  }
  return absl::OkStatus();
}

std::string EntryText(absl::string_view name, const SafetensorsEntry& entry) {
  const Json shape = std::vector<int64_t>(entry.shape.dims().begin(), entry.shape.dims().end());
  return absl::StrCat(JsonString(name), ":{\"dtype\":\"", SafetensorsDTypeName(entry.dtype),
                      "\",\"shape\":", shape.dump(), ",\"data_offsets\":[", entry.begin, ",",
                      entry.end, "]}");
}

// The header's length and JSON, padded so that the data begin aligned.
absl::StatusOr<std::string> HeaderText(const std::string& path, const TensorEntries& entries,
                                       const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    absl::StrAppend(&text, "\"__metadata__\":",
                    Json(metadata).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  for (const auto& [name, entry] : entries) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", EntryText(name, entry));
  }
  text += "}";
  const auto unpadded = static_cast<int64_t>(text.size()) + 8;
  const int64_t length = (unpadded + kDataAlignment - 1) / kDataAlignment * kDataAlignment - 8;
  if (length > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", entries.size(), " tensors need a header of ", length,
                     " bytes, readers accept ", kMaxSafetensorsHeaderBytes));
  }
  text.resize(static_cast<size_t>(length), ' ');
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  return header + text;
}

}  // namespace

absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata) {
  for (const TensorDeclaration& tensor : tensors) {
    ZEROTH_RETURN_IF_ERROR_WITH(CheckName(tensor.name), path);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  SafetensorsLayout layout;
  ZEROTH_ASSIGN_OR_RETURN(layout.tensors, LayOutTensors(path, tensors));
  ZEROTH_ASSIGN_OR_RETURN(layout.header, HeaderText(path, layout.tensors.entries, metadata));
  return layout;
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata) {
  ZEROTH_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                          LayOutSafetensors(path, std::move(tensors), metadata));
  return TensorFileWriter::Create(path, std::move(layout.header), std::move(layout.tensors));
}

}  // namespace zeroth
