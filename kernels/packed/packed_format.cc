// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/packed/packed_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/gguf_values.h"

namespace zeroth {
namespace {

// Number of values that are read at a time.
constexpr int64_t kChunkNumel = int64_t{1} << 20;
// bitsandbytes bounds the divisor from below, so that a block of zeros has codes of zero.
constexpr float kSmallestMagnitude = 1e-38f;

// The borders between the values of neighbouring codes. The code of a value is the number of
// borders below it, so that a value on a border has the lower code.
template <size_t Codes>
constexpr std::array<float, Codes - 1> Borders(const std::array<float, Codes>& values) {
  std::array<float, Codes - 1> borders = {};
  for (size_t i = 0; i + 1 < Codes; ++i) borders[i] = (values[i] + values[i + 1]) / 2.0f;
  return borders;
}

float LargestMagnitude(absl::Span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

absl::Status ExpectFinite(absl::Span<const float> values, int64_t begin) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return InvalidArgument("element ", begin + static_cast<int64_t>(i), " is ", values[i],
                           "; a weight that is packed must be finite");
  }
  return absl::OkStatus();
}

// Packs a row. The bound keeps the scale normal and its inverse finite, also for rows of zeros.
void PackInt8Row(absl::Span<const float> row, uint8_t* codes, float& scale) {
  constexpr float kMostCode = PackedShape::kInt8MostCode;
  constexpr float kBound = std::numeric_limits<float>::min() * kMostCode;
  const float largest = std::max(LargestMagnitude(row), kBound);
  const float inverse = kMostCode / largest;
  for (size_t i = 0; i < row.size(); ++i) {
    codes[i] = static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(row[i] * inverse)));
  }
  scale = largest / kMostCode;
}

// Packs a block, and returns its magnitude.
float PackNf4Block(absl::Span<const float> block, uint8_t* codes) {
  static constexpr auto kBorders = Borders(kNf4Values);
  constexpr auto kSize = static_cast<size_t>(PackedShape::kNf4Block);
  const float largest = LargestMagnitude(block);
  const float inverse = 1.0f / std::max(largest, kSmallestMagnitude);
  // Borders are counted for all values at once, in vectors and without branches.
  std::array<float, kSize> scaled;
  std::array<int32_t, kSize> code = {};
  for (size_t i = 0; i < kSize; ++i) scaled[i] = block[i] * inverse;
  for (const float border : kBorders) {
    for (size_t i = 0; i < kSize; ++i) code[i] += static_cast<int32_t>(border < scaled[i]);
  }
  for (size_t i = 0; i < kSize; i += 2) {
    codes[i / 2] = static_cast<uint8_t>(code[i] << 4 | code[i + 1]);
  }
  return largest;
}

// Packs the magnitudes of all blocks: writes their codes after each block's codes, and the scales.
void PackNf4Magnitudes(std::vector<float> magnitudes, std::vector<uint8_t>& codes,
                       std::vector<float>& scales) {
  static constexpr auto kBorders = Borders(kDynamicValues);
  double sum = 0;
  for (const float magnitude : magnitudes) sum += magnitude;
  const auto offset = static_cast<float>(sum / static_cast<double>(magnitudes.size()));
  for (float& magnitude : magnitudes) magnitude -= offset;
  const auto group = static_cast<size_t>(PackedShape::kNf4ScaleBlocks);
  for (size_t begin = 0; begin < magnitudes.size(); begin += group) {
    const absl::Span<const float> of_scale = absl::MakeConstSpan(magnitudes).subspan(begin, group);
    scales[begin / group] = LargestMagnitude(of_scale);
    const float inverse = 1.0f / std::max(scales[begin / group], kSmallestMagnitude);
    for (size_t i = 0; i < of_scale.size(); ++i) {
      const auto* const border =
          std::lower_bound(kBorders.begin(), kBorders.end(), of_scale[i] * inverse);
      codes[(begin + i + 1) * PackedShape::kNf4BlockBytes - 1] =
          static_cast<uint8_t>(border - kBorders.begin());
    }
  }
  scales.back() = offset;
}

std::vector<uint8_t> BytesOf(const std::vector<float>& floats) {
  std::vector<uint8_t> bytes(floats.size() * sizeof(float));
  std::memcpy(bytes.data(), floats.data(), bytes.size());
  return bytes;
}

}  // namespace

absl::string_view PackedFormatName(PackedFormat format) {
  constexpr absl::string_view kNames[] = {"none", "int8", "nf4",  "q4_0", "q4_1", "q5_0", "q5_1",
                                          "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "mxfp4"};
  return kNames[static_cast<size_t>(format)];
}

std::optional<PackedFormat> FormatOfCodes(absl::string_view parameter) {
  for (const PackedFormat format : kPackedFormats) {
    if (absl::EndsWith(parameter, absl::StrCat(".weight_", PackedFormatName(format)))) {
      return format;
    }
  }
  return std::nullopt;
}

absl::Status ValidatePackedShape(const PackedShape& shape) {
  if (shape.format == PackedFormat::kNone || shape.rows < 1 || shape.cols < 1) {
    return InvalidArgument("a matrix of ", shape.rows, " x ", shape.cols, " to be packed as ",
                           PackedFormatName(shape.format), "; expected a format and elements");
  }
  if (shape.cols % shape.block() == 0) return absl::OkStatus();
  return InvalidArgument("rows of ", shape.cols, " values cannot be packed as ",
                         PackedFormatName(shape.format), ", in blocks of ", shape.block(),
                         "; expected a multiple of ", shape.block(), ", or int8");
}

absl::StatusOr<PackedMatrix> PackMatrix(const PackedShape& shape, ReadMatrix read) {
  ZEROTH_RETURN_IF_ERROR(ValidatePackedShape(shape));
  if (IsGgufFormat(shape.format)) {
    return InvalidArgument("a matrix is to be packed as ", PackedFormatName(shape.format),
                           ", whose blocks are those of a GGUF file; expected int8 or nf4");
  }
  const bool is_nf4 = shape.format == PackedFormat::kNf4;
  const int64_t row_bytes = shape.CodeBytes(shape.cols);
  PackedMatrix packed;
  packed.codes.resize(static_cast<size_t>(shape.rows * row_bytes));
  std::vector<float> scales(static_cast<size_t>(shape.scales()));
  std::vector<float> magnitudes;
  std::vector<float> chunk;
  const int64_t step = std::max<int64_t>(1, kChunkNumel / shape.cols);
  for (int64_t row = 0; row < shape.rows; row += step) {
    const int64_t rows = std::min(step, shape.rows - row);
    chunk.resize(static_cast<size_t>(rows * shape.cols));
    ZEROTH_RETURN_IF_ERROR(read(row * shape.cols, absl::MakeSpan(chunk)));
    ZEROTH_RETURN_IF_ERROR(ExpectFinite(chunk, row * shape.cols));
    const absl::Span<const float> values = chunk;
    uint8_t* codes = packed.codes.data() + row * row_bytes;
    if (is_nf4) {
      constexpr auto kBlock = static_cast<size_t>(PackedShape::kNf4Block);
      for (size_t at = 0; at < values.size(); at += kBlock) {
        magnitudes.push_back(PackNf4Block(values.subspan(at, kBlock), codes));
        codes += PackedShape::kNf4BlockBytes;
      }
      continue;
    }
    const auto cols = static_cast<size_t>(shape.cols);
    for (int64_t i = 0; i < rows; ++i, codes += row_bytes) {
      PackInt8Row(values.subspan(static_cast<size_t>(i) * cols, cols), codes,
                  scales[static_cast<size_t>(row + i)]);
    }
  }
  if (is_nf4) PackNf4Magnitudes(std::move(magnitudes), packed.codes, scales);
  packed.scales = BytesOf(scales);
  return packed;
}

absl::StatusOr<std::vector<float>> UnpackMatrix(const PackedShape& shape,
                                                absl::Span<const uint8_t> codes,
                                                absl::Span<const uint8_t> scales) {
  ZEROTH_RETURN_IF_ERROR(ValidatePackedShape(shape));
  const int64_t row_bytes = shape.CodeBytes(shape.cols);
  if (static_cast<int64_t>(codes.size()) != shape.rows * row_bytes ||
      static_cast<int64_t>(scales.size()) != shape.scale_bytes()) {
    return InvalidArgument("a matrix of ", shape.rows, " x ", shape.cols, " packed as ",
                           PackedFormatName(shape.format), " has ", codes.size(),
                           " bytes of codes and ", scales.size(), " of scales, expected ",
                           shape.rows * row_bytes, " and ", shape.scale_bytes());
  }
  std::vector<float> values(static_cast<size_t>(shape.rows * shape.cols));
  if (IsGgufFormat(shape.format)) {
    WithGgufFormat(shape.format, [&]<PackedFormat Format>() {
      constexpr PackedShape kOne = {Format};
      const uint8_t* block = codes.data();
      float* value = values.data();
      for (; block != codes.data() + codes.size(); block += kOne.block_bytes()) {
        for (int begin = 0; begin < kOne.block(); begin += kGgufRun) {
          const GgufGroup group = GgufGroupOf<Format>(block, begin / kGgufGroup<Format>);
          const GgufRun run = GgufRunOf<Format>(begin / kGgufRun);
          for (int i = 0; i < kGgufRun; ++i) {
            *value++ = GgufElement(group, GgufCodeOf<Format>(block, run, i));
          }
        }
      }
    });
    return values;
  }
  std::vector<float> floats(static_cast<size_t>(shape.scales()));
  std::memcpy(floats.data(), scales.data(), scales.size());
  float* value = values.data();
  const uint8_t* code = codes.data();
  if (shape.format == PackedFormat::kInt8) {
    for (const float scale : floats) {
      for (int64_t i = 0; i < shape.cols; ++i) {
        *value++ = static_cast<float>(static_cast<int8_t>(*code++)) * scale;
      }
    }
    return values;
  }
  const int64_t blocks = shape.rows * shape.cols / PackedShape::kNf4Block;
  for (int64_t block = 0; block < blocks; ++block, code += PackedShape::kNf4BlockBytes) {
    const float magnitude =
        shape.MagnitudeOf(block, code[PackedShape::kNf4BlockBytes - 1], floats.data());
    for (int64_t i = 0; i < PackedShape::kNf4Block / 2; ++i) {
      *value++ = kNf4Values[code[i] >> 4] * magnitude;
      *value++ = kNf4Values[code[i] & 15] * magnitude;
    }
  }
  return values;
}

}  // namespace zeroth
