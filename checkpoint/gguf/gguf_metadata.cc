// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The values and element types that a GGUF file can have.

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

struct PlainType {
  uint32_t number;
  SafetensorsDType dtype;
};

constexpr std::array<PlainType, 8> kPlain = {{{0, SafetensorsDType::kF32},
                                              {1, SafetensorsDType::kF16},
                                              {24, SafetensorsDType::kI8},
                                              {25, SafetensorsDType::kI16},
                                              {26, SafetensorsDType::kI32},
                                              {27, SafetensorsDType::kI64},
                                              {28, SafetensorsDType::kF64},
                                              {30, SafetensorsDType::kBF16}}};

struct QuantisedType {
  uint32_t number;
  absl::string_view name;
  // Of the types that are not among kGgufFormats, as in ggml-common.h.
  GgufBlockSize block = {0, 0};
};

// Only the types of kGgufFormats can be read, and only those of GgufBlock can be written. The
// others are here for messages and lists.
constexpr std::array<QuantisedType, 26> kQuantised = {{{2, "Q4_0"},
                                                       {3, "Q4_1"},
                                                       {6, "Q5_0"},
                                                       {7, "Q5_1"},
                                                       {8, "Q8_0"},
                                                       {9, "Q8_1", {32, 36}},
                                                       {10, "Q2_K"},
                                                       {11, "Q3_K"},
                                                       {12, "Q4_K"},
                                                       {13, "Q5_K"},
                                                       {14, "Q6_K"},
                                                       {15, "Q8_K", {256, 292}},
                                                       {16, "IQ2_XXS", {256, 66}},
                                                       {17, "IQ2_XS", {256, 74}},
                                                       {18, "IQ3_XXS", {256, 98}},
                                                       {19, "IQ1_S", {256, 50}},
                                                       {20, "IQ4_NL", {32, 18}},
                                                       {21, "IQ3_S", {256, 110}},
                                                       {22, "IQ2_S", {256, 82}},
                                                       {23, "IQ4_XS", {256, 136}},
                                                       {29, "IQ1_M", {256, 56}},
                                                       {34, "TQ1_0", {256, 54}},
                                                       {35, "TQ2_0", {256, 66}},
                                                       {39, "MXFP4"},
                                                       {40, "NVFP4", {64, 36}},
                                                       {41, "Q1_0", {128, 18}}}};

constexpr const char* kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufValue>);

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Empty unless `value` is an integer that 63 bits hold.
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
    return InvalidArgument(where_, ": no key \"", key, "\", expected ", expected);
  }
  return InvalidArgument(where_, ": key \"", key, "\" is of type ", GgufTypeName(*found),
                         ", expected ", expected);
}

absl::StatusOr<bool> GgufMetadata::GetBool(absl::string_view key) const {
  if (const GgufValue* value = Find(key)) {
    if (const auto* flag = std::get_if<bool>(value)) return *flag;
  }
  return WrongType(key, "bool");
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

std::string EscapeForMessage(absl::string_view text) {
  constexpr size_t kShown = 80;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShown)),
                      text.size() > kShown ? "..." : "", "\"");
}

absl::string_view QuantizedTypeName(uint32_t number) {
  for (const QuantisedType& quantised : kQuantised) {
    if (quantised.number == number) return quantised.name;
  }
  return "";
}

PackedFormat FormatOfQuantizedType(uint32_t number) {
  for (const PackedFormat format : kGgufFormats) {
    if (absl::AsciiStrToLower(QuantizedTypeName(number)) == PackedFormatName(format)) return format;
  }
  return PackedFormat::kNone;
}

GgufBlockSize SizeOfQuantizedType(uint32_t number) {
  if (const PackedShape one = {FormatOfQuantizedType(number)}; one.format != PackedFormat::kNone) {
    return {one.block(), one.block_bytes()};
  }
  const auto* const type = std::ranges::find(kQuantised, number, &QuantisedType::number);
  ZEROTH_CHECK(type != kQuantised.end());
  return type->block;
}

absl::StatusOr<SafetensorsDType> DTypeOfGgml(uint32_t number) {
  for (const PlainType& plain : kPlain) {
    if (plain.number == number) return plain.dtype;
  }
  if (const absl::string_view name = QuantizedTypeName(number); !name.empty()) {
    return Unimplemented("quantised as ", name,
                         ", expected F32, F16 or BF16; use the file that it was quantised from");
  }
  return InvalidArgument("unknown type ", number, ", expected F32 (0), F16 (1) or BF16 (30)");
}

absl::StatusOr<uint32_t> GgmlNumberOf(SafetensorsDType dtype) {
  for (const PlainType& plain : kPlain) {
    if (plain.dtype == dtype) return plain.number;
  }
  return InvalidArgument("GGUF has no type ", SafetensorsDTypeName(dtype),
                         ", expected F32, F16, BF16, F64, I8, I16, I32 or I64");
}

}  // namespace zeroth
