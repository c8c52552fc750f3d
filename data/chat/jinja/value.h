// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

struct JinjaNode;

// A value of a template. Copies share their contents, which are immutable except for the members of
// a namespace.
struct JinjaValue {
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kString,
    kList,
    kMap,
    kNamespace,
    kMacro
  };
  using List = std::vector<JinjaValue>;
  using Map = std::vector<std::pair<std::string, JinjaValue>>;  // in the order of insertion

  Kind kind = Kind::kUndefined;
  int depth = 0;        // of nested lists and maps
  int64_t integer = 0;  // also of kBool
  // kString: the characters; kFloat: the number as Python writes it; kUndefined: the name, or null.
  std::shared_ptr<const std::string> text{};
  std::shared_ptr<const List> list{};
  std::shared_ptr<Map> map{};  // of kMap and kNamespace
  const JinjaNode* macro = nullptr;

  static JinjaValue None() { return {.kind = Kind::kNone}; }
  static JinjaValue Bool(bool value) { return {.kind = Kind::kBool, .integer = value ? 1 : 0}; }
  static JinjaValue Integer(int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
  static JinjaValue Float(double value);
  static JinjaValue String(std::string value);
  static JinjaValue Undefined(absl::string_view name);
  static JinjaValue Of(List values);
  static JinjaValue Of(Map members);
  // Converts JSON. A binary value, which text cannot have, becomes none.
  static JinjaValue OfJson(const nlohmann::ordered_json& json);

  bool Is(Kind other) const { return kind == other; }
  // True for what arithmetic accepts. Floats are only written and compared.
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kBool; }
  // The member of this name of a map or namespace, or null.
  const JinjaValue* Find(absl::string_view name) const;
  // "a list", for messages.
  absl::string_view KindName() const;
};

}  // namespace zeroth
