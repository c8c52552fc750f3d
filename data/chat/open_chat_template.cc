// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds a tokenizer's chat template.

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/hugging_face.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"

namespace zeroth {

namespace fs = std::filesystem;

absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer) {
  if (choice != "auto") return ChatTemplate::Named(choice, tokenizer);
  std::error_code ignored;
  const fs::path directory = fs::is_directory(tokenizer_path, ignored)
                                 ? fs::path(tokenizer_path)
                                 : fs::path(tokenizer_path).parent_path();
  HfChatTemplate found;
  if (!tokenizer_path.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(found, ReadHfChatTemplate(directory.string()));
  }
  if (found.jinja.empty()) {
    return absl::NotFoundError(absl::StrCat(
        tokenizer_path.empty() ? "the tokenizer" : tokenizer_path,
        " has no chat template, neither a chat_template.jinja nor a \"chat_template\" in a "
        "tokenizer_config.json; name one by --chat_template=chatml, llama3 or mistral"));
  }
  absl::StatusOr<ChatTemplate> result = ChatTemplate::FromJinja(found.jinja, tokenizer);
  if (!result.ok()) return Annotate(result.status(), found.path);
  return result;
}

}  // namespace zeroth
