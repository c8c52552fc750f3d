// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds a tokenizer's chat template.

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = size_t{1} << 20;

// Returns the template of a tokenizer_config.json: a string, or the one named "default" of several.
// Empty if there is none.
absl::StatusOr<std::string> TemplateOf(const nlohmann::json& config, const std::string& where) {
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const nlohmann::json& entry : *found) {
      if (!entry.is_object() || entry.value("name", nlohmann::json()) != "default") continue;
      const auto text = entry.find("template");
      if (text != entry.end() && text->is_string()) return text->get<std::string>();
    }
  }
  return InvalidArgument(
      where, ": \"chat_template\" is neither a string nor a list with one named default");
}

}  // namespace

absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer) {
  if (choice != "auto") return ChatTemplate::Named(choice, tokenizer);
  std::error_code ignored;
  const fs::path directory = fs::is_directory(tokenizer_path, ignored)
                                 ? fs::path(tokenizer_path)
                                 : fs::path(tokenizer_path).parent_path();
  std::string where = (directory / "chat_template.jinja").string();
  std::string jinja;
  if (!tokenizer_path.empty() && IsFile(where)) {
    ZEROTH_ASSIGN_OR_RETURN(jinja, ReadFile(where, kMaxBytes));
  } else if (where = (directory / "tokenizer_config.json").string();
             !tokenizer_path.empty() && IsFile(where)) {
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJsonFile(where));
    ZEROTH_ASSIGN_OR_RETURN(jinja, TemplateOf(config, where));
  }
  if (jinja.empty()) {
    return absl::NotFoundError(absl::StrCat(
        tokenizer_path.empty() ? "the tokenizer" : tokenizer_path,
        " has no chat template, neither a chat_template.jinja nor a \"chat_template\" in a "
        "tokenizer_config.json; name one by --chat_template=chatml, llama3 or mistral"));
  }
  absl::StatusOr<ChatTemplate> result = ChatTemplate::FromJinja(jinja, tokenizer);
  if (!result.ok()) return Annotate(result.status(), where);
  return result;
}

}  // namespace zeroth
