// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rules for reading Hugging Face's files that several folders share.

#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

struct HfChatTemplate {
  std::string jinja;     // empty if there is none
  std::string tool_use;  // for conversations with tools; empty: `jinja`
  std::string path;      // the file that was read last
};

// Reads the chat templates in a model's or tokenizer's directory, as transformers does:
// chat_template.jinja with additional_chat_templates/tool_use.jinja, or else "chat_template" of
// tokenizer_config.json, a string or a list of named templates, of which "default" and "tool_use"
// are read. InvalidArgument for a "chat_template" of another form, and for a tool_use template
// without a default one; errors of ReadFile and ReadJsonFile.
absl::StatusOr<HfChatTemplate> ReadHfChatTemplate(const std::string& directory);

// Prepares `files` (names and contents of files in `directory`) for a copy without subdirectories:
// moves the template of additional_chat_templates/tool_use.jinja, with that of chat_template.jinja,
// into a list in tokenizer_config.json, which transformers reads in the same way. Does nothing
// unless both templates exist. Errors of ReadHfChatTemplate.
absl::Status FoldToolUseTemplate(const std::string& directory,
                                 std::map<std::string, std::string>& files);

// Returns advice for the message that `path` does not exist: how to download the model, if `path`
// has the form of a model id on the Hugging Face Hub ("org/name", or "gpt2"), otherwise nothing.
std::string HubHint(absl::string_view path);

// True for a tensor of multi-token prediction (MTP) layers, "mtp." or "model.mtp.", which predict
// more than the next token: transformers' classes, such as Qwen3_5ForCausalLM, ignore them.
bool IsMtpTensor(absl::string_view name);

// Returns whether "rope_parameters" and "rope_scaling" of a config.json agree, except for a theta
// that only one of them has.
bool IsSameRope(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace zeroth
