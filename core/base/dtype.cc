// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/dtype.h"

#include <array>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

struct DTypeInfo {
  DType dtype;
  const char* name;
  size_t size;
  bool floating_point;
};

constexpr std::array<DTypeInfo, 6> kDTypes = {{
    {DType::kFloat32, "fp32", 4, true},
    {DType::kBFloat16, "bf16", 2, true},
    {DType::kFloat16, "fp16", 2, true},
    {DType::kInt32, "int32", 4, false},
    {DType::kInt64, "int64", 8, false},
    {DType::kUInt8, "uint8", 1, false},
}};

const DTypeInfo& Info(DType dtype) {
  const size_t index = static_cast<size_t>(dtype);
  ZEROTH_CHECK(index < kDTypes.size() && kDTypes[index].dtype == dtype);
  return kDTypes[index];
}

constexpr uint32_t kFloatAbsMask = 0x7fffffffu;
constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr uint32_t kFloatMantissaMask = 0x007fffffu;
constexpr uint32_t kFloatImplicitOne = 0x00800000u;
constexpr int kFloatMantissaBits = 23;

// value / 2^shift to the nearest integer, ties to even. A carry out of the mantissa increments the
// exponent, which is the right result, up to and including infinity.
constexpr uint32_t ShiftRightRoundToEven(uint32_t value, int shift) {
  const uint32_t half = uint32_t{1} << (shift - 1);
  const uint32_t odd = (value >> shift) & 1u;
  return (value + (half - 1) + odd) >> shift;
}

}  // namespace

size_t SizeOf(DType dtype) { return Info(dtype).size; }

absl::string_view DTypeName(DType dtype) { return Info(dtype).name; }

bool IsFloatingPoint(DType dtype) { return Info(dtype).floating_point; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (name == info.name) return info.dtype;
  }
  const std::string allowed = absl::StrJoin(
      kDTypes, ", ",
      [](std::string* out, const DTypeInfo& info) { absl::StrAppend(out, info.name); });
  return absl::InvalidArgumentError(
      absl::StrCat("unknown dtype '", name, "'; expected one of: ", allowed));
}

BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & kFloatAbsMask) > kFloatInfinity) {
    // Rounding could carry a NaN's payload into infinity, so NaNs are truncated and made quiet.
    return {static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  }
  return {static_cast<uint16_t>(ShiftRightRoundToEven(bits, 16))};
}

Float16 ToFloat16(float value) {
  constexpr int kDroppedBits = 13;                         // 23 mantissa bits become 10
  constexpr uint32_t kExponentRebias = 112u << 23;         // bias 127 becomes 15
  constexpr uint32_t kSmallestNormal = 113u << 23;         // 2^-14
  constexpr uint32_t kHalfSmallestSubnormal = 102u << 23;  // 2^-25: a tie, to the even zero
  constexpr uint32_t kRoundsToInfinity = 0x477ff000u;      // 65520, the tie above the largest 65504

  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & kFloatAbsMask;
  const auto with_sign = [sign](uint32_t half) {
    return Float16{static_cast<uint16_t>(sign | half)};
  };

  if (magnitude > kFloatInfinity) {
    return with_sign(0x7e00u | ((magnitude >> kDroppedBits) & 0x01ffu));
  }
  if (magnitude >= kRoundsToInfinity) return with_sign(0x7c00u);
  if (magnitude <= kHalfSmallestSubnormal) return with_sign(0);
  if (magnitude < kSmallestNormal) {
    const int exponent = static_cast<int>(magnitude >> kFloatMantissaBits);
    const uint32_t significand = (magnitude & kFloatMantissaMask) | kFloatImplicitOne;
    // The result counts units of 2^-24; the significand counts units of 2^(exponent - 150).
    return with_sign(ShiftRightRoundToEven(significand, 126 - exponent));
  }
  return with_sign(ShiftRightRoundToEven(magnitude - kExponentRebias, kDroppedBits));
}

float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

float ToFloat(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x03ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 0x1f) return std::bit_cast<float>(sign | kFloatInfinity | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112u) << kFloatMantissaBits) | (mantissa << 13));
}

}  // namespace zeroth
