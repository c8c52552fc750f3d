// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/formats/hf_tokenizer.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

using SpecialTokens = ChatTemplate::SpecialTokens;

// Returns the tokens that a template can name, as transformers defines them: the tokens in the
// files beside the template, or else the defaults of the tokenizer class, which are taken from
// `tokenizer`.
absl::StatusOr<SpecialTokens> ReadSpecialTokens(const std::string& directory,
                                                const Tokenizer& tokenizer) {
  SpecialTokens tokens = {{"eos_token", tokenizer.Decode({tokenizer.end_of_text()}).value_or("")}};
  if (const auto begin = tokenizer.begin_of_text(); begin.has_value()) {
    tokens["bos_token"] = tokenizer.Decode({*begin}).value_or("");
  }
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ReadTokenizerConfig(directory));
  const nlohmann::json& tokenizer_class = FieldOf(config, "tokenizer_class");
  // Classes without default tokens.
  if (tokenizer_class == "PreTrainedTokenizerFast" || tokenizer_class == "TokenizersBackend") {
    for (const char* const own : {"bos_token", "eos_token"}) {
      if (!config.contains(own)) tokens.erase(own);
    }
  }
  for (const auto& [key, value] : config.items()) {
    if (!absl::EndsWith(key, "_token")) continue;
    const nlohmann::json& text = value.is_object() ? FieldOf(value, "content") : value;
    if (text.is_string()) tokens[key] = text.get<std::string>();
    if (text.is_null()) tokens.erase(key);
  }
  return tokens;
}

}  // namespace

absl::StatusOr<ChatTemplate> OpenChatTemplate(absl::string_view choice,
                                              const std::string& tokenizer_path,
                                              const Tokenizer& tokenizer, absl::string_view owner) {
  if (dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr) {
    // Data without conversations need no template, unless one is named.
    return absl::Status(
        choice == "auto" ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
        "the byte tokenizer has no special tokens, so it cannot write conversations; name the "
        "--tokenizer of a model that chats");
  }
  const bool is_file = absl::EndsWith(choice, ".jinja");
  if (choice != "auto" && !is_file) return ChatTemplate::Named(choice, tokenizer);
  std::error_code ignored;
  const std::filesystem::path path(tokenizer_path);
  HfChatTemplate found;
  std::string directory;
  if (!path.empty()) {
    directory = (std::filesystem::is_directory(path, ignored) ? path : path.parent_path()).string();
    if (!is_file) {
      ZEROTH_ASSIGN_OR_RETURN(found, ReadHfChatTemplate(directory));
    }
  }
  if (is_file) {
    constexpr size_t kMaxBytes = size_t{1} << 20;
    found.path = std::string(choice);
    absl::StatusOr<std::string> jinja = ReadFile(found.path, kMaxBytes);
    ZEROTH_RETURN_IF_ERROR_WITH(jinja.status(), "--chat_template");
    if (jinja->empty()) {
      return InvalidArgument("--chat_template: ", found.path,
                             " is empty, expected a Jinja template");
    }
    found.jinja = *std::move(jinja);
  }
  if (found.jinja.empty()) {
    return absl::NotFoundError(absl::StrCat(
        owner.empty() ? tokenizer_path : owner,
        " has no chat template, neither a chat_template.jinja nor a \"chat_template\" in a "
        "tokenizer_config.json; name one by --chat_template=chatml, llama3, mistral or a .jinja "
        "file"));
  }
  ZEROTH_ASSIGN_OR_RETURN(const SpecialTokens tokens, ReadSpecialTokens(directory, tokenizer));
  absl::StatusOr<ChatTemplate> result =
      ChatTemplate::FromJinja(found.jinja, tokenizer, tokens, found.tool_use);
  if (!result.ok()) {
    return Annotate(result.status(), is_file || owner.empty() ? found.path : owner);
  }
  return result;
}

}  // namespace zeroth
