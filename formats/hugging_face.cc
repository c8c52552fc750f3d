// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/hugging_face.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<HfChatTemplate> ReadHfChatTemplate(const std::string& directory) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  HfChatTemplate result;
  result.path = absl::StrCat(directory, "/chat_template.jinja");
  if (IsFile(result.path)) {
    ZEROTH_ASSIGN_OR_RETURN(result.jinja, ReadFile(result.path, kMaxBytes));
    return result;
  }
  result.path = absl::StrCat(directory, "/tokenizer_config.json");
  if (!IsFile(result.path)) return result;
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJsonFile(result.path));
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end() || found->is_null()) return result;
  if (found->is_string()) {
    result.jinja = found->get<std::string>();
    return result;
  }
  for (const nlohmann::json& entry : found->is_array() ? *found : nlohmann::json::array()) {
    if (!entry.is_object() || entry.value("name", nlohmann::json()) != "default") continue;
    const auto text = entry.find("template");
    if (text == entry.end() || !text->is_string()) continue;
    result.jinja = text->get<std::string>();
    return result;
  }
  return InvalidArgument(
      result.path, ": key \"chat_template\" is ", found->type_name(),
      ", expected a string, or a list with a template named default; fix or remove it");
}

std::string HubHint(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const auto is_name = [](absl::string_view part) {
    return !part.empty() && absl::ascii_isalnum(part[0]) &&
           std::all_of(part.begin(), part.end(), [](char c) {
             return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
           });
  };
  if (parts.size() > 2 || !std::all_of(parts.begin(), parts.end(), is_name)) return "";
  return absl::StrCat(
      "; models are not downloaded here: if this is one of the Hugging Face Hub, "
      "run hf download ",
      path, " --local-dir ", parts.back(), ", and give that directory, ", parts.back());
}

bool IsSameRope(const nlohmann::json& a, const nlohmann::json& b) {
  static constexpr char kTheta[] = "rope_theta";
  const auto meaning = [](const nlohmann::json& rope, const nlohmann::json& other) {
    const auto type = rope.find("type");
    nlohmann::json said = {{"rope_type", "default"}};
    if (type != rope.end() && !type->is_null()) said["rope_type"] = *type;
    for (const auto& [key, value] : rope.items()) {
      const bool left_out = key == "type" || (key == kTheta && !other.contains(kTheta));
      if (!left_out && !value.is_null()) said[key] = value;
    }
    return said;
  };
  return meaning(a, b) == meaning(b, a);
}

}  // namespace zeroth
