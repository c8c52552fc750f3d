// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/hugging_face.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

namespace {

namespace fs = std::filesystem;

constexpr char kDefault[] = "default";
constexpr char kToolUse[] = "tool_use";
constexpr char kChatTemplate[] = "chat_template";
constexpr char kDefaultFile[] = "chat_template.jinja";
constexpr char kConfigFile[] = "tokenizer_config.json";

std::string ToolUsePath(const std::string& directory) {
  return (fs::path(directory) / "additional_chat_templates" / absl::StrCat(kToolUse, ".jinja"))
      .string();
}

}  // namespace

absl::StatusOr<HfChatTemplate> ReadHfChatTemplate(const std::string& directory) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  HfChatTemplate result;
  result.path = (fs::path(directory) / kDefaultFile).string();
  const bool has_default = IsFile(result.path);
  if (const std::string path = ToolUsePath(directory); IsFile(path)) {
    if (!has_default) {
      return InvalidArgument(path, ": is there without ", result.path,
                             ", the template of conversations without tools; expected both, or "
                             "neither");
    }
    ZEROTH_ASSIGN_OR_RETURN(result.tool_use, ReadFile(path, kMaxBytes));
  }
  if (has_default) {
    ZEROTH_ASSIGN_OR_RETURN(result.jinja, ReadFile(result.path, kMaxBytes));
    return result;
  }
  result.path = (fs::path(directory) / kConfigFile).string();
  if (!IsFile(result.path)) return result;
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJsonFile(result.path));
  const auto found = config.is_object() ? config.find(kChatTemplate) : config.end();
  if (found == config.end() || found->is_null()) return result;
  if (found->is_string()) {
    result.jinja = found->get<std::string>();
    return result;
  }
  for (const nlohmann::json& entry : found->is_array() ? *found : nlohmann::json::array()) {
    if (!entry.is_object()) continue;
    const nlohmann::json name = entry.value("name", nlohmann::json());
    const auto text = entry.find("template");
    if (text == entry.end() || !text->is_string()) continue;
    if (name == kDefault) result.jinja = text->get<std::string>();
    if (name == kToolUse) result.tool_use = text->get<std::string>();
  }
  if (!result.jinja.empty()) return result;
  return InvalidArgument(
      result.path, ": key \"chat_template\" is ", found->type_name(),
      ", expected a string, or a list with a template named default; fix or remove it");
}

absl::Status FoldToolUseTemplate(const std::string& directory,
                                 std::map<std::string, std::string>& files) {
  const bool has_both =
      IsFile(ToolUsePath(directory)) && IsFile((fs::path(directory) / kDefaultFile).string());
  if (files.empty() || !has_both) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const HfChatTemplate chat, ReadHfChatTemplate(directory));
  const std::string path = (fs::path(directory) / kConfigFile).string();
  const auto found = files.find(kConfigFile);
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  if (found != files.end()) {
    ZEROTH_ASSIGN_OR_RETURN(config, ParseOrderedJson(found->second, path));
  }
  if (!config.is_object()) {
    return InvalidArgument(path, ": is ", config.type_name(), ", expected an object");
  }
  // int(1e30) stands for no limit, as a missing key does. Written as a double, it would no longer
  // be a whole number.
  constexpr char kMaxLength[] = "model_max_length";
  const auto length = config.find(kMaxLength);
  if (length != config.end() && *length == 1e30) config.erase(kMaxLength);
  config[kChatTemplate] = {{{"name", kDefault}, {"template", chat.jinja}},
                           {{"name", kToolUse}, {"template", chat.tool_use}}};
  files[kConfigFile] =
      config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  files.erase(kDefaultFile);
  return absl::OkStatus();
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

bool IsMtpTensor(absl::string_view name) {
  absl::ConsumePrefix(&name, "model.");
  return absl::StartsWith(name, "mtp.");
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
