// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Values of NF4 and int8 are looked up in a table of all values that the codes can have: 16 for a
// block of NF4, 256 for a row of int8. So each code is multiplied and rounded once, not each
// element, and no vector instructions are needed.

#include <array>
#include <type_traits>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/packed/gguf_values.h"
#include "zeroth/kernels/packed/packed.h"

namespace zeroth::cpu {
namespace {

template <typename T>
T Rounded(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) return ToBFloat16(value);
  if constexpr (std::is_same_v<T, Float16>) return ToFloat16(value);
  if constexpr (std::is_same_v<T, float>) return value;
}

template <typename T>
void UnpackNf4Row(const UnpackCall& call, int64_t row, const uint8_t* codes, T* values) {
  std::array<T, 16> table;
  const int64_t blocks = call.cols / PackedShape::kNf4Block;
  for (int64_t block = 0; block < blocks; ++block) {
    const float magnitude = call.shape.MagnitudeOf(
        call.FirstBlock(row) + block, codes[PackedShape::kNf4BlockBytes - 1], call.scales);
    for (size_t code = 0; code < table.size(); ++code) {
      table[code] = Rounded<T>(kNf4Values[code] * magnitude);
    }
    for (int64_t i = 0; i < PackedShape::kNf4Block / 2; ++i) {
      values[2 * i] = table[codes[i] >> 4];
      values[2 * i + 1] = table[codes[i] & 15];
    }
    codes += PackedShape::kNf4BlockBytes;
    values += PackedShape::kNf4Block;
  }
}

template <typename T>
void UnpackInt8Row(const UnpackCall& call, int64_t row, const uint8_t* codes, T* values) {
  const float scale = call.scales[call.row + row];
  std::array<T, 256> table;
  for (int code = 0; code < 256; ++code) {
    table[static_cast<size_t>(code)] =
        Rounded<T>(static_cast<float>(static_cast<int8_t>(code)) * scale);
  }
  for (int64_t i = 0; i < call.cols; ++i) values[i] = table[codes[i]];
}

template <typename T, PackedFormat Format>
void UnpackGgufRow(const UnpackCall& call, int64_t, const uint8_t* codes, T* values) {
  constexpr PackedShape kOne = {Format};
  for (int64_t block = 0; block < call.cols / kOne.block(); ++block) {
    UnpackGgufBlock<Format>(codes, [&](int i, float value) { values[i] = Rounded<T>(value); });
    codes += kOne.block_bytes();
    values += kOne.block();
  }
}

template <typename T>
using UnpackRow = void (*)(const UnpackCall& call, int64_t row, const uint8_t* codes, T* values);

template <typename T>
UnpackRow<T> RowOf(PackedFormat format) {
  if (format == PackedFormat::kNf4) return UnpackNf4Row<T>;
  if (format == PackedFormat::kInt8) return UnpackInt8Row<T>;
  return WithGgufFormat(
      format, []<PackedFormat Format>() -> UnpackRow<T> { return UnpackGgufRow<T, Format>; });
}

template <typename T>
absl::Status UnpackAs(const UnpackCall& call) {
  const UnpackRow<T> unpack_row = RowOf<T>(call.shape.format);
  const int64_t row_bytes = call.shape.CodeBytes(call.cols);
  return ForRows(call.rows, call.cols, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      unpack_row(call, row, call.codes + row * row_bytes,
                 static_cast<T*>(call.values) + row * call.cols);
    }
  });
}

absl::Status Unpack(const UnpackCall& call, CpuKernels&) {
  if (call.IsUnused()) return absl::OkStatus();
  if (call.dtype == DType::kBFloat16) return UnpackAs<BFloat16>(call);
  if (call.dtype == DType::kFloat16) return UnpackAs<Float16>(call);
  return UnpackAs<float>(call);
}
const OnCpu<Unpack> unpack;

}  // namespace
}  // namespace zeroth::cpu
