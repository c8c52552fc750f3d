// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rules of Hugging Face's files that several folders must read in the same way.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

struct HfChatTemplate {
  std::string jinja;  // empty if there is none
  std::string path;   // of the file that was read last
};

// Reads the template of conversations of a model's or tokenizer's directory: chat_template.jinja,
// or else "chat_template" of tokenizer_config.json; if there are several, the one named "default".
// InvalidArgument for a "chat_template" of another form; errors of ReadFile and ReadJsonFile.
absl::StatusOr<HfChatTemplate> ReadHfChatTemplate(const std::string& directory);

// Advice for the message that `path` does not exist: how to download the model, if `path` has the
// form of a model's id on the Hugging Face Hub ("org/name", or "gpt2"), otherwise nothing.
std::string HubHint(absl::string_view path);

// Whether "rope_parameters" and "rope_scaling" of a config.json agree, except for a theta that only
// one of them has.
bool IsSameRope(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace zeroth
