// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors, buffers and files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// The element types of tensors. The numeric values may change between versions, so files store
// names.
enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16, kInt32, kInt64, kUInt8 };

// Bytes of one element.
size_t SizeOf(DType dtype);

// "fp32", "bf16", "fp16", "int32", "int64", "uint8", as in flags and messages.
absl::string_view DTypeName(DType dtype);

// The inverse of DTypeName. InvalidArgument lists the allowed names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// True for fp32, bf16 and fp16.
bool IsFloatingPoint(DType dtype);

// IEEE 754 binary32 truncated to its upper 16 bits.
struct BFloat16 {
  uint16_t bits = 0;
};

// IEEE 754 binary16.
struct Float16 {
  uint16_t bits = 0;
};

// Conversions from float round to nearest, ties to even; overflow gives infinity, a NaN stays a
// (quiet) NaN. Conversions to float are exact, subnormals included.
BFloat16 ToBFloat16(float value);
Float16 ToFloat16(float value);
float ToFloat(BFloat16 value);
float ToFloat(Float16 value);

// DTypeOf<float>::value == DType::kFloat32, and so on.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kFloat32> {};
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::kBFloat16> {};
template <>
struct DTypeOf<Float16> : std::integral_constant<DType, DType::kFloat16> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kInt32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kInt64> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kUInt8> {};

}  // namespace zeroth
