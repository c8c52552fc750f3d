// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/json_fields.h"

#include "nlohmann/json.hpp"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status Wrong(const char* name, const nlohmann::json& found, absl::string_view expected) {
  return InvalidArgument("\"", name, "\" is ",
                         found.is_null() ? "missing or null" : found.type_name(), ", expected ",
                         expected);
}

using PartSink = absl::FunctionRef<absl::Status(const std::string&, const nlohmann::json&)>;

absl::Status Visit(const nlohmann::json& json, const char* what, const char* list, int depth,
                   PartSink add) {
  constexpr int kMostSequences = 8;
  ZEROTH_ASSIGN_OR_RETURN(const std::string type, TypeOf(json));
  if (type != "Sequence") return add(type, json);
  if (depth == kMostSequences) {
    return InvalidArgument("a ", what, " holds more than ", kMostSequences,
                           " Sequences in each other");
  }
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json* parts, ArrayField(json, list));
  for (const nlohmann::json& part : *parts) {
    ZEROTH_RETURN_IF_ERROR(Visit(part, what, list, depth + 1, add));
  }
  return absl::OkStatus();
}

}  // namespace

const nlohmann::json& FieldOf(const nlohmann::json& json, const char* name) {
  static const nlohmann::json null;
  if (!json.is_object()) return null;
  const auto found = json.find(name);
  return found == json.end() ? null : *found;
}

absl::StatusOr<std::string> StringField(const nlohmann::json& json, const char* name) {
  const nlohmann::json& field = FieldOf(json, name);
  if (!field.is_string()) return Wrong(name, field, "a string");
  return field.get<std::string>();
}

absl::StatusOr<bool> BoolField(const nlohmann::json& json, const char* name, bool fallback) {
  const nlohmann::json& field = FieldOf(json, name);
  if (field.is_null()) return fallback;
  if (!field.is_boolean()) return Wrong(name, field, "true or false");
  return field.get<bool>();
}

absl::StatusOr<int64_t> IntField(const nlohmann::json& json, const char* name) {
  const nlohmann::json& field = FieldOf(json, name);
  if (!field.is_number_integer()) return Wrong(name, field, "a whole number");
  return field.get<int64_t>();
}

absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& json, const char* name) {
  const nlohmann::json& field = FieldOf(json, name);
  if (!field.is_array()) return Wrong(name, field, "an array");
  return &field;
}

absl::StatusOr<std::string> TypeOf(const nlohmann::json& json) { return StringField(json, "type"); }

absl::Status UnknownKind(absl::string_view what, absl::string_view type, absl::string_view known) {
  return Unimplemented("the ", what, " ", Excerpt(type), " is not known to Zeroth, which knows ",
                       known);
}

absl::Status ForEachPart(const nlohmann::json& json, const char* what, const char* list,
                         PartSink add) {
  return json.is_null() ? absl::OkStatus() : Annotate(Visit(json, what, list, 0, add), what);
}

}  // namespace zeroth
