// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace zeroth {
namespace {

// Python's repr: the fewest digits that mean this number, with an exponent below 1e-4 and from 1e16
// on.
std::string Repr(double value) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);
  const size_t e = scientific.find('e');
  int exponent = 0;
  if (e == std::string::npos ||
      !absl::SimpleAtoi(scientific.substr(e + (scientific[e + 1] == '+' ? 2 : 1)), &exponent)) {
    return scientific;
  }
  // Python's exponents have at least two digits, as these have.
  if (exponent < -4 || exponent >= 16) return scientific;
  std::string digits;
  for (const char c : scientific.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) {
    digits.insert(0, static_cast<size_t>(-exponent), '0');
    exponent = 0;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  return absl::StrCat(std::signbit(value) ? "-" : "", digits.substr(0, whole), ".",
                      digits.substr(whole));
}

}  // namespace

JinjaValue JinjaValue::Float(double value) {
  return {.kind = Kind::kFloat, .text = std::make_shared<const std::string>(Repr(value))};
}

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

JinjaValue JinjaValue::OfJson(const nlohmann::ordered_json& json) {
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean:
      return Bool(json.get<bool>());
    case Type::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        return {.kind = Kind::kFloat, .text = std::make_shared<const std::string>(json.dump())};
      }
      [[fallthrough]];
    case Type::number_integer:
      return Integer(json.get<int64_t>());
    case Type::number_float:
      return Float(json.get<double>());
    case Type::string:
      return String(json.get<std::string>());
    case Type::array: {
      List list;
      for (const nlohmann::ordered_json& each : json) list.push_back(OfJson(each));
      return Of(std::move(list));
    }
    case Type::object: {
      Map members;
      for (const auto& [name, each] : json.items()) members.emplace_back(name, OfJson(each));
      return Of(std::move(members));
    }
    default:
      return None();
  }
}

absl::string_view JinjaValue::KindName() const {
  static constexpr absl::string_view kNames[] = {
      "an undefined value", "none",   "a boolean", "an integer",  "a float",
      "a string",           "a list", "a mapping", "a namespace", "a macro"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace zeroth
