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

// Returns the field's value; null if `json` is not an object or lacks the field.
const nlohmann::json& FieldOf(const nlohmann::json& json, const char* name);

// These return the value. InvalidArgument if the field is missing or of another type.
absl::StatusOr<std::string> StringField(const nlohmann::json& json, const char* name);
// Returns `fallback` if the field is missing or null.
absl::StatusOr<bool> BoolField(const nlohmann::json& json, const char* name, bool fallback);
absl::StatusOr<int64_t> IntField(const nlohmann::json& json, const char* name);
absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& json, const char* name);

// Returns the field "type". InvalidArgument if `json` is not an object with one.
absl::StatusOr<std::string> TypeOf(const nlohmann::json& json);

// Returns Unimplemented: `what` ("normalizer") is of an unknown kind; the message lists the known
// ones.
absl::Status UnknownKind(absl::string_view what, absl::string_view type, absl::string_view known);

// Calls add(type, part) for a part of a tokenizer.json; for a Sequence, for each of the parts in
// its `list`, in order. Null has no parts. Errors begin with `what` ("normalizer"): InvalidArgument
// for a part without a type, a Sequence without its list, and Sequences nested too deep.
absl::Status ForEachPart(
    const nlohmann::json& json, const char* what, const char* list,
    absl::FunctionRef<absl::Status(const std::string& type, const nlohmann::json& part)> add);

}  // namespace zeroth
