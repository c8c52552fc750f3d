// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

struct DTypeFacts {
  absl::string_view name;
  int bits;
};

// Indexed by SafetensorsDType.
constexpr std::array<DTypeFacts, 20> kDTypes = {
    {{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
     {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
     {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

// Elements lie at any byte, so they are copied out one by one; compilers turn that into plain
// unaligned loads.
template <typename T, typename Convert>
void ConvertElements(const uint8_t* from, absl::Span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

}  // namespace

absl::string_view SafetensorsDTypeName(SafetensorsDType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].name;
}

int BitsOf(SafetensorsDType dtype) { return kDTypes[static_cast<size_t>(dtype)].bits; }

absl::StatusOr<SafetensorsDType> ParseSafetensorsDType(absl::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<SafetensorsDType>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown dtype \"", name, "\", expected one of ",
                   absl::StrJoin(kDTypes, ", ", [](std::string* out, const DTypeFacts& facts) {
                     absl::StrAppend(out, facts.name);
                   })));
}

SafetensorsDType ToSafetensorsDType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return SafetensorsDType::kF32;
    case DType::kBFloat16:
      return SafetensorsDType::kBF16;
    case DType::kFloat16:
      return SafetensorsDType::kF16;
    case DType::kInt32:
      return SafetensorsDType::kI32;
    case DType::kInt64:
      return SafetensorsDType::kI64;
    case DType::kUInt8:
      return SafetensorsDType::kU8;
  }
  ZEROTH_CHECK(false);
}

bool ConvertsToFloat32(SafetensorsDType dtype) {
  return dtype == SafetensorsDType::kF32 || dtype == SafetensorsDType::kF16 ||
         dtype == SafetensorsDType::kBF16 || dtype == SafetensorsDType::kF64;
}

void ConvertToFloat32(SafetensorsDType dtype, const uint8_t* from, absl::Span<float> out) {
  switch (dtype) {
    case SafetensorsDType::kF32:
      std::memcpy(out.data(), from, out.size() * sizeof(float));
      return;
    case SafetensorsDType::kF16:
      return ConvertElements<Float16>(from, out, [](Float16 value) { return ToFloat(value); });
    case SafetensorsDType::kBF16:
      return ConvertElements<BFloat16>(from, out, [](BFloat16 value) { return ToFloat(value); });
    case SafetensorsDType::kF64:
      return ConvertElements<double>(from, out,
                                     [](double value) { return static_cast<float>(value); });
    default:
      ZEROTH_CHECK(ConvertsToFloat32(dtype));
  }
}

}  // namespace zeroth
