// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_types.h"

#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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
};

// Only their names: the message is what a user who named the wrong file needs.
constexpr std::array<QuantisedType, 24> kQuantised = {
    {{2, "Q4_0"},   {3, "Q4_1"},    {6, "Q5_0"},     {7, "Q5_1"},    {8, "Q8_0"},
     {9, "Q8_1"},   {10, "Q2_K"},   {11, "Q3_K"},    {12, "Q4_K"},   {13, "Q5_K"},
     {14, "Q6_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
     {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
     {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"}}};

}  // namespace

std::string ShownInGguf(absl::string_view text) {
  constexpr size_t kShown = 80;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShown)),
                      text.size() > kShown ? "..." : "", "\"");
}

absl::StatusOr<SafetensorsDType> DTypeOfGgml(uint32_t number) {
  for (const PlainType& plain : kPlain) {
    if (plain.number == number) return plain.dtype;
  }
  for (const QuantisedType& quantised : kQuantised) {
    if (quantised.number != number) continue;
    return absl::UnimplementedError(
        absl::StrCat("quantised as ", quantised.name,
                     ", expected F32, F16 or BF16; use the file that it was quantised from"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown type ", number, ", expected F32 (0), F16 (1) or BF16 (30)"));
}

absl::StatusOr<uint32_t> GgmlNumberOf(SafetensorsDType dtype) {
  for (const PlainType& plain : kPlain) {
    if (plain.dtype == dtype) return plain.number;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("GGUF has no type ", SafetensorsDTypeName(dtype),
                   ", expected F32, F16, BF16, F64, I8, I16, I32 or I64"));
}

}  // namespace zeroth
