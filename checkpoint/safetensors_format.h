// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The safetensors header, and its checks.
//
//   bytes 0..7     length H of the header, unsigned little-endian
//   bytes 8..8+H   JSON, padded with spaces:
//                  {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...};
//                  "__metadata__", if present, maps strings to strings
//   bytes 8+H..    the data; offsets count from here; tensors follow each other without overlap or
//                  hole

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// Every element type of the format, in the order of the format's list.
enum class SafetensorsDType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// "F32", "BF16", ...: the spelling inside files.
absl::string_view SafetensorsDTypeName(SafetensorsDType dtype);
// The inverse; InvalidArgument lists the known names.
absl::StatusOr<SafetensorsDType> ParseSafetensorsDType(absl::string_view name);
// Bits of one element (4 and 6 for the packed types).
int BitsOf(SafetensorsDType dtype);
// The file's spelling of a type that tensors can hold.
SafetensorsDType ToSafetensorsDType(DType dtype);
// True for F32, F16, BF16 and F64, which ReadElements converts to float32.
bool ConvertsToFloat32(SafetensorsDType dtype);
// out[i] = element i at `from`, which need not be aligned. Aborts unless `dtype` converts.
void ConvertToFloat32(SafetensorsDType dtype, const uint8_t* from, absl::Span<float> out);
// Element i at `out`, which need not be aligned, = values[i], rounded to nearest. Aborts unless
// `dtype` is fp32, bf16 or fp16.
void ConvertFromFloat32(DType dtype, absl::Span<const float> values, uint8_t* out);

// One tensor of a file.
struct SafetensorsEntry {
  SafetensorsDType dtype = SafetensorsDType::kF32;
  Shape shape;
  // The bytes [begin, end), counted from the first data byte.
  int64_t begin = 0;
  int64_t end = 0;
};

// Tensors by name.
using TensorEntries = std::map<std::string, SafetensorsEntry, std::less<>>;
// The entries in the order of their bytes; owned by `tensors`.
std::vector<const TensorEntries::value_type*> ByRange(const TensorEntries& tensors);

struct SafetensorsHeader {
  TensorEntries tensors;
  std::map<std::string, std::string> metadata;
  // Offset of the first data byte in the file: 8 + H.
  int64_t data_begin = 0;
};

// The longest accepted header in bytes, as in the format's reference implementation.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Parses and checks the header of the file called `path`, which has `file_bytes` bytes and begins
// with `head`. `head` has the whole header, unless the file is shorter or the header too long. On
// success every entry's range lies in the file and has exactly the size of its shape and dtype, and
// the ranges tile the data without overlap or hole. InvalidArgument names the path, the tensor, the
// bytes found and those expected.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> head,
                                                         int64_t file_bytes,
                                                         const std::string& path);
// Reads the header of `file` and parses it. Errors as above, and those of the file.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const RandomAccessFile& file);

// Returns a tensor's size in bytes. InvalidArgument if it overflows 63 bits or is not a whole
// number.
absl::StatusOr<int64_t> SafetensorsBytes(SafetensorsDType dtype, absl::Span<const int64_t> dims);

}  // namespace zeroth
