// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Parses the messages of a record, in the format of OpenAI's API or in ShareGPT's.

#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/chat/chat_message.h"

namespace zeroth {

// How messages are written: {"role": "user", "content": ...} or {"from": "human", "value": ...}.
struct MessageFormat {
  const char* role;
  const char* content;
  absl::string_view roles;  // for messages
  const MessageFormat* other;
};
extern const MessageFormat kOpenAiFormat;
extern const MessageFormat kShareGptFormat;

// Reads the list of messages under `key` of a record, which must have that key. InvalidArgument
// names the first wrong message.
absl::StatusOr<std::vector<ChatMessage>> ParseMessages(const nlohmann::ordered_json& json,
                                                       const char* key,
                                                       const MessageFormat& format);

// True for a value without content: null, "", [] and {}.
bool IsEmptyValue(const nlohmann::ordered_json& value);

// True for a key that says whether a message is learned.
bool IsLossMaskKey(absl::string_view key);
// Reads the value of a key for which IsLossMaskKey is true. Refuses weights between 0 and 1,
// because the loss does not weigh messages.
absl::StatusOr<bool> ReadLossMask(absl::string_view key, const nlohmann::ordered_json& value);

}  // namespace zeroth
