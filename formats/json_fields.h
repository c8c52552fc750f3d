// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads fields of a tokenizer.json. Errors name the field.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

// The field's value; null if `json` is not an object or lacks the field.
const nlohmann::json& FieldOf(const nlohmann::json& json, const char* name);

// InvalidArgument if the field is missing or of another type.
absl::StatusOr<std::string> StringField(const nlohmann::json& json, const char* name);
// `fallback` if the field is missing or null.
absl::StatusOr<bool> BoolField(const nlohmann::json& json, const char* name, bool fallback);
absl::StatusOr<int64_t> IntField(const nlohmann::json& json, const char* name);
absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& json, const char* name);

// The field "type". InvalidArgument if `json` is not an object with one.
absl::StatusOr<std::string> TypeOf(const nlohmann::json& json);

// Unimplemented: `what` ("normalizer") is of an unknown kind; the message lists the known ones.
absl::Status UnknownKind(absl::string_view what, absl::string_view type, absl::string_view known);

// Hands a part of a tokenizer.json and its type to `add`; of a Sequence, the parts in its `list`
// one after the other. Null has no parts. Errors begin with `what` ("normalizer"): InvalidArgument
// for a part without a type, a Sequence without its list, and too many Sequences in each other.
absl::Status ForEachPart(
    const nlohmann::json& json, const char* what, const char* list,
    absl::FunctionRef<absl::Status(const std::string& type, const nlohmann::json& part)> add);

}  // namespace zeroth
