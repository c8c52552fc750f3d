// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Frozen weights in few bits, as QLoRA keeps them (Dettmers et al., "QLoRA: Efficient Finetuning of
// Quantized LLMs", 2023). Packing is a function of the whole weight, so that it has the same bits
// however the weight is divided among ranks.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/kernels/packed/packed_tables.h"

namespace zeroth {

// How a matrix is packed.
//
// kInt8: value = code * scale, with one fp32 scale for each row: its largest magnitude / 127, and
// at least FLT_MIN.
//
// kNf4: value = kNf4Values[code] * magnitude, with one magnitude for each block of 64 values of a
// row. Magnitudes are packed again ("double quantisation"): magnitude = offset + scale *
// kDynamicValues[code] in fp32, with one scale for each 256 magnitudes of the whole matrix, and one
// offset, their mean. Codes, magnitudes and scales have the bits of bitsandbytes 0.50 with
// compress_statistics; so has the offset where the sum of bitsandbytes, whose order differs between
// machines, rounds to the exact mean. On CPUs bitsandbytes finds the codes of magnitudes in a table
// of 2^16 places, so of those within 1.5e-5 of the border between two codes, about 0.1 %, some have
// the code beside the nearest, which is the code here.
//
// kQ4_0 to kMxfp4: the unchanged blocks of a GGUF file, which contain their scales
// (kernels/packed/gguf_values.h). Values have the bits of the package gguf and of ggml's reference.
enum class PackedFormat : uint8_t {
  kNone,
  kInt8,
  kNf4,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMxfp4
};

// All formats but kNone.
inline constexpr PackedFormat kPackedFormats[] = {
    PackedFormat::kInt8, PackedFormat::kNf4,  PackedFormat::kQ4_0, PackedFormat::kQ4_1,
    PackedFormat::kQ5_0, PackedFormat::kQ5_1, PackedFormat::kQ8_0, PackedFormat::kQ2_K,
    PackedFormat::kQ3_K, PackedFormat::kQ4_K, PackedFormat::kQ5_K, PackedFormat::kQ6_K,
    PackedFormat::kMxfp4};

// The formats that are GGUF block types: all of kPackedFormats from kQ4_0 on.
inline constexpr absl::Span<const PackedFormat> kGgufFormats =
    absl::Span<const PackedFormat>(kPackedFormats).subspan(2);

constexpr bool IsGgufFormat(PackedFormat format) { return format >= PackedFormat::kQ4_0; }

// Returns "none", "int8", "nf4", "q4_0", ...
absl::string_view PackedFormatName(PackedFormat format);

// Returns the format of a parameter that holds the codes of a packed weight, by its name, which
// ends in .weight_FORMAT; nullopt for other parameters.
std::optional<PackedFormat> FormatOfCodes(absl::string_view parameter);

// A packed matrix and its two arrays of bytes. constexpr, since device code uses it too.
//
// Codes: `rows` rows of CodeBytes(cols) bytes each. kInt8: a signed code for each value. kNf4: for
// each block 32 bytes with two codes each, the first in the upper half, then the code of its
// magnitude. GGUF's: the blocks. So rows, or columns in multiples of block(), can be divided among
// ranks.
//
// Scales: fp32. kInt8: one for each row. kNf4: one for each 256 blocks, then the offset. GGUF's:
// none.
struct PackedShape {
  PackedFormat format = PackedFormat::kNone;
  int64_t rows = 0;
  int64_t cols = 0;

  static constexpr int64_t kNf4Block = 64;         // values that share a magnitude
  static constexpr int64_t kNf4BlockBytes = 33;    // codes, and the code of the magnitude
  static constexpr int64_t kNf4ScaleBlocks = 256;  // magnitudes that share a scale
  static constexpr float kInt8MostCode = 127.0f;

  // The smallest unit into which a row can be cut: its columns, and the bytes of their codes.
  constexpr int64_t block() const {
    switch (format) {
      case PackedFormat::kNone:
      case PackedFormat::kInt8:
        return 1;
      case PackedFormat::kNf4:
        return kNf4Block;
      case PackedFormat::kQ4_0:
      case PackedFormat::kQ4_1:
      case PackedFormat::kQ5_0:
      case PackedFormat::kQ5_1:
      case PackedFormat::kQ8_0:
      case PackedFormat::kMxfp4:
        return 32;
      case PackedFormat::kQ2_K:
      case PackedFormat::kQ3_K:
      case PackedFormat::kQ4_K:
      case PackedFormat::kQ5_K:
      case PackedFormat::kQ6_K:
        return 256;
    }
    return 1;
  }
  constexpr int64_t block_bytes() const {
    switch (format) {
      case PackedFormat::kNone:
      case PackedFormat::kInt8:
        return 1;
      case PackedFormat::kNf4:
        return kNf4BlockBytes;
      case PackedFormat::kQ4_0:
        return 2 + 16;
      case PackedFormat::kQ4_1:
        return 2 + 2 + 16;
      case PackedFormat::kQ5_0:
        return 2 + 4 + 16;
      case PackedFormat::kQ5_1:
        return 2 + 2 + 4 + 16;
      case PackedFormat::kQ8_0:
        return 2 + 32;
      case PackedFormat::kQ2_K:
        return 16 + 64 + 2 + 2;
      case PackedFormat::kQ3_K:
        return 32 + 64 + 12 + 2;
      case PackedFormat::kQ4_K:
        return 2 + 2 + 12 + 128;
      case PackedFormat::kQ5_K:
        return 2 + 2 + 12 + 32 + 128;
      case PackedFormat::kQ6_K:
        return 128 + 64 + 16 + 2;
      case PackedFormat::kMxfp4:
        return 1 + 16;
    }
    return 1;
  }
  constexpr int64_t CodeBytes(int64_t columns) const { return columns / block() * block_bytes(); }
  constexpr int64_t scales() const {
    if (IsGgufFormat(format)) return 0;
    if (format == PackedFormat::kInt8) return rows;
    const int64_t blocks = rows * cols / kNf4Block;
    return (blocks + kNf4ScaleBlocks - 1) / kNf4ScaleBlocks + 1;
  }
  constexpr int64_t scale_bytes() const { return scales() * static_cast<int64_t>(sizeof(float)); }

  // Decodes the stored magnitude `code` of a kNf4 block, which is counted in the whole matrix.
  float MagnitudeOf(int64_t nf4_block, uint8_t code, const float* all_scales) const {
    const float product = kDynamicValues[code] * all_scales[nf4_block / kNf4ScaleBlocks];
    return product + all_scales[scales() - 1];
  }
};

// Returns InvalidArgument unless the matrix can be packed: its columns are a multiple of block().
absl::Status ValidatePackedShape(const PackedShape& shape);

struct PackedMatrix {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// Fills `values` with elements [begin, begin + values.size()) of a row-major matrix.
using ReadMatrix = absl::FunctionRef<absl::Status(int64_t begin, absl::Span<float> values)>;

// Packs a matrix, which is read once, some rows at a time. InvalidArgument for a shape that cannot
// be packed, for a value that is not finite, and for GGUF's blocks, which are read from files; also
// the errors of `read`.
absl::StatusOr<PackedMatrix> PackMatrix(const PackedShape& shape, ReadMatrix read);

// Returns all values of a packed matrix in fp32, with the bits of kernels::Unpack. InvalidArgument
// if the numbers of bytes do not match the shape.
absl::StatusOr<std::vector<float>> UnpackMatrix(const PackedShape& shape,
                                                absl::Span<const uint8_t> codes,
                                                absl::Span<const uint8_t> scales);

}  // namespace zeroth
