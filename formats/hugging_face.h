// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rules of Hugging Face's files that several folders must read in the same way.

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
  std::string tool_use;  // of conversations with tools; empty: the same
  std::string path;      // of the file that was read last
};

// Reads the templates of conversations of a model's or tokenizer's directory, as transformers does:
// chat_template.jinja with additional_chat_templates/tool_use.jinja, or else "chat_template" of
// tokenizer_config.json, a string or a list of templates with names, of which "default" and
// "tool_use" are read. InvalidArgument for a "chat_template" of another form, and for a tool_use
// without the template of other conversations; errors of ReadFile and ReadJsonFile.
absl::StatusOr<HfChatTemplate> ReadHfChatTemplate(const std::string& directory);

// Puts the template of additional_chat_templates/tool_use.jinja in `directory`, if there is one,
// into the `files` (names and contents) that are copied of the directory, none of which lies in a
// directory of its own: as a list in tokenizer_config.json, without chat_template.jinja.
// Transformers reads such a list as it reads the files. Without chat_template.jinja the files stay
// as they are. Errors of ReadHfChatTemplate.
absl::Status FoldToolUseTemplate(const std::string& directory,
                                 std::map<std::string, std::string>& files);

// Advice for the message that `path` does not exist: how to download the model, if `path` has the
// form of a model's id on the Hugging Face Hub ("org/name", or "gpt2"), otherwise nothing.
std::string HubHint(absl::string_view path);

// Whether "rope_parameters" and "rope_scaling" of a config.json agree, except for a theta that only
// one of them has.
bool IsSameRope(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace zeroth
