// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads fields of a tokenizer.json. Errors name the field.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

// The field's value; null if `json` is no object or lacks the field.
const nlohmann::json& FieldOf(const nlohmann::json& json, const char* name);

// InvalidArgument if the field is missing or of another type.
absl::StatusOr<std::string> StringField(const nlohmann::json& json, const char* name);
// `fallback` if the field is missing or null.
absl::StatusOr<bool> BoolField(const nlohmann::json& json, const char* name, bool fallback);
absl::StatusOr<int64_t> IntField(const nlohmann::json& json, const char* name);
absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& json, const char* name);

// The field "type". InvalidArgument if `json` is no object that has one.
absl::StatusOr<std::string> TypeOf(const nlohmann::json& json);

// Unimplemented: `what` ("normalizer") is of an unknown kind; the message lists the known ones.
absl::Status UnknownKind(absl::string_view what, absl::string_view type, absl::string_view known);

// Deepest nesting of Sequence in Sequence.
inline constexpr int kMaxSequenceDepth = 8;
absl::Status TooDeep(absl::string_view what);

}  // namespace zeroth
