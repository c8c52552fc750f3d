// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/packed/packed.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class PackedSuite : public KernelsSuite {
 protected:
  Tensor UploadBytes(const Shape& shape, const std::vector<uint8_t>& bytes) {
    absl::StatusOr<Tensor> tensor =
        Tensor::FromHost<uint8_t>(device(), shape, bytes, MemoryCategory::kParameters);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return *tensor;
  }
};

namespace {

float RoundedTo(DType dtype, float value) {
  if (dtype == DType::kBFloat16) return ToFloat(ToBFloat16(value));
  return dtype == DType::kFloat16 ? ToFloat(ToFloat16(value)) : value;
}

// The offsets of the half-precision numbers in a GGUF block.
std::vector<size_t> HalvesOf(PackedFormat format) {
  switch (format) {
    case PackedFormat::kQ4_1:
    case PackedFormat::kQ5_1:
    case PackedFormat::kQ4_K:
    case PackedFormat::kQ5_K:
      return {0, 2};
    case PackedFormat::kQ2_K:
      return {80, 82};
    case PackedFormat::kQ3_K:
      return {108};
    case PackedFormat::kQ6_K:
      return {208};
    case PackedFormat::kMxfp4:
      return {};
    default:
      return {0};
  }
}

// Returns the codes of rows [row, row + rows) and columns [col, col + cols).
std::vector<uint8_t> PartOf(const std::vector<uint8_t>& codes, const PackedShape& shape,
                            int64_t row, int64_t rows, int64_t col, int64_t cols) {
  std::vector<uint8_t> part;
  for (int64_t i = row; i < row + rows; ++i) {
    const auto first = codes.begin() + i * shape.CodeBytes(shape.cols) + shape.CodeBytes(col);
    part.insert(part.end(), first, first + shape.CodeBytes(cols));
  }
  return part;
}

// A matrix of random bytes, and its values. GGUF's half-precision numbers may be anything finite.
// MXFP4's scales may be any power of two, which makes some values infinite.
struct RandomMatrix {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  std::vector<float> values;
};

RandomMatrix DrawMatrix(const PackedShape& shape, std::mt19937_64& random) {
  RandomMatrix matrix;
  matrix.codes.resize(static_cast<size_t>(shape.rows * shape.CodeBytes(shape.cols)));
  for (uint8_t& byte : matrix.codes) byte = static_cast<uint8_t>(random());
  if (IsGgufFormat(shape.format)) {
    for (size_t at = 0; at < matrix.codes.size(); at += static_cast<size_t>(shape.block_bytes())) {
      // Not the exponent of infinity and NaN.
      for (const size_t half : HalvesOf(shape.format)) matrix.codes[at + half + 1] &= 0xfb;
    }
  }
  std::vector<float> scales(static_cast<size_t>(shape.scales()));
  std::uniform_real_distribution<float> uniform(0.01f, 2.0f);
  for (float& scale : scales) scale = uniform(random);
  matrix.scales.resize(static_cast<size_t>(shape.scale_bytes()));
  if (!scales.empty()) std::memcpy(matrix.scales.data(), scales.data(), matrix.scales.size());
  const auto values = UnpackMatrix(shape, matrix.codes, matrix.scales);
  EXPECT_TRUE(values.ok()) << values.status();
  matrix.values = values.value_or(std::vector<float>());
  return matrix;
}

TEST_P(PackedSuite, UnpacksBlocksOfTheMatrix) {
  for (const PackedFormat format : {PackedFormat::kInt8, PackedFormat::kNf4}) {
    // More than 256 blocks, so that magnitudes have several scales, and more elements than a thread
    // processes at once.
    const PackedShape shape = {format, 300, 256};
    const std::vector<float> weight = RandomNormal(shape.rows * shape.cols, 0.02f);
    const absl::StatusOr<PackedMatrix> packed =
        PackMatrix(shape, [&](int64_t begin, absl::Span<float> out) {
          std::copy_n(weight.begin() + begin, out.size(), out.begin());
          return absl::OkStatus();
        });
    ASSERT_TRUE(packed.ok()) << packed.status();
    const absl::StatusOr<std::vector<float>> all =
        UnpackMatrix(shape, packed->codes, packed->scales);
    ASSERT_TRUE(all.ok()) << all.status();
    struct Block {
      int64_t row, rows, col, cols;
    };
    for (const Block& block : {Block{0, 300, 0, 256}, Block{290, 10, 0, 256},
                               Block{0, 300, 128, 64}, Block{33, 4, 64, 192}}) {
      const std::vector<uint8_t> codes =
          PartOf(packed->codes, shape, block.row, block.rows, block.col, block.cols);
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        UnpackArgs args;
        args.shape = shape;
        args.row = block.row;
        args.col = block.col;
        args.blocks = {{UploadBytes(Shape({block.rows, shape.CodeBytes(block.cols)}), codes),
                        UploadBytes(Shape({shape.scale_bytes()}), packed->scales),
                        Unwritten(Shape({block.rows, block.cols}), dtype)}};
        const absl::Status unpacked = kernels::Unpack(kernels(), args);
        ASSERT_TRUE(unpacked.ok()) << unpacked;
        const std::vector<float> values = Download(args.blocks[0].values);
        for (int64_t row = 0; row < block.rows; ++row) {
          for (int64_t col = 0; col < block.cols; ++col) {
            const int64_t at = (block.row + row) * shape.cols + block.col + col;
            ASSERT_EQ(values[static_cast<size_t>(row * block.cols + col)],
                      RoundedTo(dtype, (*all)[static_cast<size_t>(at)]))
                << PackedFormatName(format) << " " << DTypeName(dtype) << ", " << row << ", "
                << col;
          }
        }
      }
    }
  }
}

TEST_P(PackedSuite, UnpacksBlocksOfGguf) {
  for (const PackedFormat format : kGgufFormats) {
    const PackedShape shape = {format, 201, 512};  // more than a thread takes at once
    const RandomMatrix matrix = DrawMatrix(shape, random());
    ASSERT_EQ(matrix.values.size(), static_cast<size_t>(shape.rows * shape.cols));
    // All rows but the first, columns from 256.
    const std::vector<uint8_t> part = PartOf(matrix.codes, shape, 1, 200, 256, 256);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      UnpackArgs args;
      args.shape = shape;
      args.row = 1;
      args.col = 256;
      args.blocks = {{UploadBytes(Shape({200, shape.CodeBytes(256)}), part), Tensor(),
                      Unwritten(Shape({200, 256}), dtype)}};
      const absl::Status unpacked = kernels::Unpack(kernels(), args);
      ASSERT_TRUE(unpacked.ok()) << unpacked;
      const std::vector<float> values = Download(args.blocks[0].values);
      for (int64_t i = 0; i < 200 * 256; ++i) {
        const int64_t at = (1 + i / 256) * shape.cols + 256 + i % 256;
        ASSERT_EQ(values[static_cast<size_t>(i)],
                  RoundedTo(dtype, matrix.values[static_cast<size_t>(at)]))
            << PackedFormatName(format) << " " << DTypeName(dtype) << ", " << i;
      }
    }
  }
}

// Blocks of random matrices, perhaps empty ones and more than a launch takes. `gap` values lie
// between them, so that they are aligned or not. Matrices that nothing uses, and gaps, stay
// unwritten.
TEST_P(PackedSuite, UnpacksMatricesTogether) {
  for (const PackedFormat format : kPackedFormats) {
    for (int round = 0; round < 8; ++round) {
      PackedShape shape = {format, RandomSize(1, 5), 0};
      shape.cols =
          format == PackedFormat::kInt8 ? RandomSize(1, 70) : RandomSize(1, 3) * shape.block();
      if (round % 2 == 0) shape.cols = (shape.cols + 7) / 8 * 8;
      const int64_t count = round == 0 && !IsGgufFormat(format) ? 300 : RandomSize(1, 6);
      const int64_t gap = RandomSize(0, 1) == 0 ? 8 : RandomSize(0, 9);
      const DType dtype = kElementTypes[round % 3];
      UnpackArgs args;
      args.shape = shape;
      args.row = RandomSize(0, shape.rows - 1);
      args.col = RandomSize(0, shape.cols / shape.block() - 1) * shape.block();
      const int64_t rows = round == 5 ? 0 : RandomSize(1, shape.rows - args.row);
      const int64_t cols =
          round == 6 ? 0 : RandomSize(1, (shape.cols - args.col) / shape.block()) * shape.block();
      SCOPED_TRACE(absl::StrCat(PackedFormatName(format), " ", DTypeName(dtype), ", round ", round,
                                ": ", count, " blocks of ", rows, " x ", cols, " from ", args.row,
                                ", ", args.col, " of ", shape.rows, " x ", shape.cols, ", ", gap,
                                " apart"));
      const int64_t step = rows * cols + gap;
      const Tensor all = Unwritten(Shape({count * step + 1}), dtype);
      std::vector<int32_t> offsets = {3};
      std::vector<float> expected(static_cast<size_t>(count * step + 1), NAN);
      for (int64_t i = 0; i < count; ++i) {
        const RandomMatrix matrix = DrawMatrix(shape, this->random());
        const std::vector<uint8_t> codes =
            PartOf(matrix.codes, shape, args.row, rows, args.col, cols);
        const Tensor scales = shape.scales() == 0
                                  ? Tensor()
                                  : UploadBytes(Shape({shape.scale_bytes()}), matrix.scales);
        args.blocks.push_back({UploadBytes(Shape({rows, shape.CodeBytes(cols)}), codes), scales,
                               all.View(i * step, Shape({rows, cols}))});
        const bool is_used = round == 1 || RandomSize(0, 2) > 0;
        offsets.push_back(offsets.back() + (is_used ? 2 : 0));
        for (int64_t at = 0; is_used && at < rows * cols; ++at) {
          const int64_t from = (args.row + at / cols) * shape.cols + args.col + at % cols;
          expected[static_cast<size_t>(i * step + at)] =
              RoundedTo(dtype, matrix.values[static_cast<size_t>(from)]);
        }
      }
      if (round != 1) args.offsets = UploadTokens({count + 1}, offsets);
      const absl::Status unpacked = WhenDone(kernels::Unpack(kernels(), args));
      ASSERT_TRUE(unpacked.ok()) << unpacked;
      const std::vector<float> values = Download(all);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
            << values[i] << " instead of " << expected[i] << " at " << i;
      }
    }
  }
}

TEST_P(PackedSuite, RefusesWhatDoesNotFit) {
  UnpackArgs args;
  args.shape = {PackedFormat::kNf4, 2, 128};
  EXPECT_FALSE(kernels::Unpack(kernels(), args).ok());
  args.blocks.resize(2);
  for (UnpackArgs::Block& block : args.blocks) {
    block = {UploadBytes(Shape({2, 66}), std::vector<uint8_t>(132)),
             UploadBytes(Shape({8}), std::vector<uint8_t>(8)),
             Upload(Shape({2, 128}), std::vector<float>(256))};
  }
  const auto refuses = [&](const UnpackArgs& wrong) {
    return kernels::Unpack(kernels(), wrong).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(kernels::Unpack(kernels(), args).ok());
  UnpackArgs wrong = args;
  wrong.col = 32;
  EXPECT_TRUE(refuses(wrong));
  wrong = args;
  wrong.row = 1;
  EXPECT_TRUE(refuses(wrong));
  wrong = args;
  wrong.shape.cols = 96;
  EXPECT_TRUE(refuses(wrong));
  // Only the last matrix is wrong.
  wrong = args;
  wrong.blocks[1].scales = UploadBytes(Shape({4}), std::vector<uint8_t>(4));
  EXPECT_TRUE(refuses(wrong));
  wrong = args;
  wrong.blocks[1].codes = UploadBytes(Shape({2, 33}), std::vector<uint8_t>(66));
  EXPECT_TRUE(refuses(wrong));
  wrong = args;
  wrong.blocks[1].values = Upload(Shape({1, 128}), std::vector<float>(128));
  EXPECT_TRUE(refuses(wrong));
  wrong = args;
  wrong.blocks[1].values = Upload(Shape({2, 128}), std::vector<float>(256), DType::kBFloat16);
  EXPECT_TRUE(refuses(wrong));
  wrong = args;
  wrong.offsets = UploadTokens({2}, {0, 1});
  EXPECT_TRUE(refuses(wrong));
  wrong.offsets = UploadTokens({3}, {0, 1, 1});
  EXPECT_TRUE(kernels::Unpack(kernels(), wrong).ok());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Devices, PackedSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
