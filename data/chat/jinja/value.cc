// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/value.h"

#include <algorithm>
#include <cstddef>

namespace zeroth {

JinjaValue JinjaValue::String(std::string value) {
  return {.kind = Kind::kString, .text = std::make_shared<const std::string>(std::move(value))};
}

JinjaValue JinjaValue::Undefined(absl::string_view name) {
  return {.text = std::make_shared<const std::string>(name)};
}

JinjaValue JinjaValue::Of(List values) {
  JinjaValue value = {.kind = Kind::kList, .depth = 1};
  for (const JinjaValue& each : values) value.depth = std::max(value.depth, each.depth + 1);
  value.list = std::make_shared<const List>(std::move(values));
  return value;
}

JinjaValue JinjaValue::Of(Map members) {
  JinjaValue value = {.kind = Kind::kMap, .depth = 1};
  for (const auto& [name, each] : members) value.depth = std::max(value.depth, each.depth + 1);
  value.map = std::make_shared<Map>(std::move(members));
  return value;
}

const JinjaValue* JinjaValue::Find(absl::string_view name) const {
  if (map == nullptr) return nullptr;
  for (const auto& [key, value] : *map) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::string_view JinjaValue::KindName() const {
  static constexpr absl::string_view kNames[] = {"an undefined value", "none",        "a boolean",
                                                 "an integer",         "a string",    "a list",
                                                 "a mapping",          "a namespace", "a macro"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace zeroth
