// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr const char* kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufValue>);

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Nothing for what is no integer, or none that 63 bits hold.
template <typename T>
std::optional<int64_t> AsInt(const T& value) {
  if constexpr (kIsInteger<T>) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    }
    return static_cast<int64_t>(value);
  }
  return std::nullopt;
}

}  // namespace

std::string GgufTypeName(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return absl::StrCat("array of ", kTypeNames[array->items.index()]);
  }
  return kTypeNames[value.index()];
}

const GgufValue* GgufMetadata::Find(absl::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

absl::Status GgufMetadata::WrongType(absl::string_view key, absl::string_view expected) const {
  const GgufValue* found = Find(key);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": no key \"", key, "\", expected ", expected));
  }
  return absl::InvalidArgumentError(absl::StrCat(where_, ": key \"", key, "\" is of type ",
                                                 GgufTypeName(*found), ", expected ", expected));
}

absl::StatusOr<int64_t> GgufMetadata::GetInt(absl::string_view key) const {
  if (const GgufValue* value = Find(key)) {
    const auto integer = std::visit([](const auto& item) { return AsInt(item); }, *value);
    if (integer) return *integer;
  }
  return WrongType(key, "an integer of at most 63 bits");
}

absl::StatusOr<double> GgufMetadata::GetDouble(absl::string_view key) const {
  if (const GgufValue* value = Find(key)) {
    if (const auto* single = std::get_if<float>(value)) return static_cast<double>(*single);
    if (const auto* twice = std::get_if<double>(value)) return *twice;
  }
  return WrongType(key, "f32 or f64");
}

absl::StatusOr<bool> GgufMetadata::GetBool(absl::string_view key) const {
  if (const GgufValue* value = Find(key)) {
    if (const auto* flag = std::get_if<bool>(value)) return *flag;
  }
  return WrongType(key, "bool");
}

absl::StatusOr<std::string> GgufMetadata::GetString(absl::string_view key) const {
  if (const GgufValue* value = Find(key)) {
    if (const auto* text = std::get_if<std::string>(value)) return *text;
  }
  return WrongType(key, "string");
}

absl::StatusOr<const std::vector<std::string>*> GgufMetadata::GetStrings(
    absl::string_view key) const {
  if (const GgufValue* value = Find(key)) {
    if (const auto* array = std::get_if<GgufArray>(value)) {
      if (const auto* items = std::get_if<std::vector<std::string>>(&array->items)) return items;
    }
  }
  return WrongType(key, "array of string");
}

absl::StatusOr<std::vector<int64_t>> GgufMetadata::GetInts(absl::string_view key) const {
  const GgufValue* value = Find(key);
  const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  if (array == nullptr) return WrongType(key, "array of integers");
  return std::visit(
      [&](const auto& items) -> absl::StatusOr<std::vector<int64_t>> {
        using Item = typename std::decay_t<decltype(items)>::value_type;
        std::vector<int64_t> integers;
        if constexpr (kIsInteger<Item>) {
          for (const Item& item : items) {
            const std::optional<int64_t> integer = AsInt(item);
            if (!integer) return WrongType(key, "array of integers of at most 63 bits");
            integers.push_back(*integer);
          }
          return integers;
        }
        return WrongType(key, "array of integers");
      },
      array->items);
}

}  // namespace zeroth
