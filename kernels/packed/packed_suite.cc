// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <vector>

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

TEST_P(PackedSuite, UnpacksBlocksOfTheMatrix) {
  for (const PackedFormat format : {PackedFormat::kInt8, PackedFormat::kNf4}) {
    // More than 256 blocks, so that magnitudes have several scales, and more elements than a thread
    // takes at once.
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
      const int64_t row_bytes = shape.CodeBytes(shape.cols);
      std::vector<uint8_t> codes;
      for (int64_t row = block.row; row < block.row + block.rows; ++row) {
        const auto first = packed->codes.begin() + row * row_bytes + shape.CodeBytes(block.col);
        codes.insert(codes.end(), first, first + shape.CodeBytes(block.cols));
      }
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        UnpackArgs args;
        args.shape = shape;
        args.codes = UploadBytes(Shape({block.rows, shape.CodeBytes(block.cols)}), codes);
        args.scales = UploadBytes(Shape({shape.scale_bytes()}), packed->scales);
        args.row = block.row;
        args.col = block.col;
        args.values =
            Upload(Shape({block.rows, block.cols}),
                   std::vector<float>(static_cast<size_t>(block.rows * block.cols)), dtype);
        const absl::Status unpacked = kernels::Unpack(kernels(), args);
        ASSERT_TRUE(unpacked.ok()) << unpacked;
        const std::vector<float> values = Download(args.values);
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

// Random bytes as blocks, whose half-precision numbers may be anything finite. MXFP4's scales may
// be any power of two, which makes some values infinite.
TEST_P(PackedSuite, UnpacksBlocksOfGguf) {
  for (const PackedFormat format : kGgufFormats) {
    const PackedShape shape = {format, 201, 512};  // more than a thread takes at once
    const int64_t row_bytes = shape.CodeBytes(shape.cols);
    std::vector<uint8_t> codes(static_cast<size_t>(shape.rows * row_bytes));
    uint32_t random = 1;
    for (uint8_t& byte : codes) {
      random = random * 1664525u + 1013904223u;
      byte = static_cast<uint8_t>(random >> 24);
    }
    for (size_t at = 0; at < codes.size(); at += static_cast<size_t>(shape.block_bytes())) {
      // Not the exponent of infinity and NaN.
      for (const size_t half : HalvesOf(format)) codes[at + half + 1] &= 0xfb;
    }
    const absl::StatusOr<std::vector<float>> all = UnpackMatrix(shape, codes, {});
    ASSERT_TRUE(all.ok()) << all.status();
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      // All rows but the first, columns from 256.
      const int64_t half_row = row_bytes / 2;
      std::vector<uint8_t> part;
      for (int64_t row = 1; row < shape.rows; ++row) {
        const auto first = codes.begin() + row * row_bytes + half_row;
        part.insert(part.end(), first, first + half_row);
      }
      UnpackArgs args;
      args.shape = shape;
      args.codes = UploadBytes(Shape({200, half_row}), part);
      args.row = 1;
      args.col = 256;
      args.values = Upload(Shape({200, 256}), std::vector<float>(200 * 256), dtype);
      const absl::Status unpacked = kernels::Unpack(kernels(), args);
      ASSERT_TRUE(unpacked.ok()) << unpacked;
      const std::vector<float> values = Download(args.values);
      for (int64_t i = 0; i < args.values.numel(); ++i) {
        const int64_t at = (1 + i / 256) * shape.cols + 256 + i % 256;
        ASSERT_EQ(values[static_cast<size_t>(i)], RoundedTo(dtype, (*all)[static_cast<size_t>(at)]))
            << PackedFormatName(format) << " " << DTypeName(dtype) << ", " << i;
      }
    }
  }
}

TEST_P(PackedSuite, UnpacksRowsOfAnyLength) {
  for (const int64_t cols : {1, 3, 15, 17, 37, 71}) {
    const PackedShape shape = {PackedFormat::kInt8, 3, cols};
    std::vector<uint8_t> codes(static_cast<size_t>(shape.rows * cols));
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(37 * i + 129);
    const std::vector<float> scales = {0.25f, 0.01f, 3.0f};
    const auto* bytes = reinterpret_cast<const uint8_t*>(scales.data());
    UnpackArgs args;
    args.shape = shape;
    args.codes = UploadBytes(Shape({shape.rows, cols}), codes);
    args.scales = UploadBytes(Shape({shape.scale_bytes()}), {bytes, bytes + shape.scale_bytes()});
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const Tensor all =
          Upload(Shape({4, cols}), std::vector<float>(static_cast<size_t>(4 * cols), 7.0f), dtype);
      args.values = all.View(0, Shape({shape.rows, cols}));
      ASSERT_TRUE(kernels::Unpack(kernels(), args).ok());
      const std::vector<float> values = Download(all);
      for (size_t i = codes.size(); i < values.size(); ++i) {
        ASSERT_EQ(values[i], 7.0f) << "behind the last row of " << cols << " columns";
      }
      for (size_t i = 0; i < codes.size(); ++i) {
        const float scale = scales[i / static_cast<size_t>(cols)];
        ASSERT_EQ(values[i],
                  RoundedTo(dtype, scale * static_cast<float>(static_cast<int8_t>(codes[i]))))
            << cols << " columns, " << DTypeName(dtype) << ", " << i;
      }
    }
  }
}

TEST_P(PackedSuite, LeavesWhatMultipliesNothingUnwritten) {
  for (const PackedFormat format : {PackedFormat::kInt8, PackedFormat::kNf4, PackedFormat::kQ8_0}) {
    const PackedShape shape = {format, 2, 64};
    UnpackArgs args;
    args.shape = shape;
    args.codes = UploadBytes(Shape({2, shape.CodeBytes(64)}),
                             std::vector<uint8_t>(static_cast<size_t>(2 * shape.CodeBytes(64))));
    args.scales = UploadBytes(Shape({shape.scale_bytes()}),
                              std::vector<uint8_t>(static_cast<size_t>(shape.scale_bytes())));
    for (const int32_t end : {3, 4}) {
      args.values = Upload(Shape({2, 64}), std::vector<float>(2 * 64, 7.0f));
      args.multiplied = UploadTokens({2}, {3, end});
      ASSERT_TRUE(kernels::Unpack(kernels(), args).ok());
      for (const float value : Download(args.values)) EXPECT_EQ(value, end == 3 ? 7.0f : 0.0f);
    }
  }
}

TEST_P(PackedSuite, RefusesWhatDoesNotFit) {
  UnpackArgs args;
  args.shape = {PackedFormat::kNf4, 2, 128};
  args.codes = UploadBytes(Shape({2, 66}), std::vector<uint8_t>(132));
  args.scales = UploadBytes(Shape({8}), std::vector<uint8_t>(8));
  args.values = Upload(Shape({2, 128}), std::vector<float>(256));
  EXPECT_TRUE(kernels::Unpack(kernels(), args).ok());
  args.col = 32;
  EXPECT_FALSE(kernels::Unpack(kernels(), args).ok());
  args.col = 0;
  args.row = 1;
  EXPECT_FALSE(kernels::Unpack(kernels(), args).ok());
  args.row = 0;
  args.scales = UploadBytes(Shape({4}), std::vector<uint8_t>(4));
  EXPECT_FALSE(kernels::Unpack(kernels(), args).ok());
  args.scales = UploadBytes(Shape({8}), std::vector<uint8_t>(8));
  args.multiplied = UploadTokens({3}, {0, 1, 2});
  EXPECT_FALSE(kernels::Unpack(kernels(), args).ok());
  args.multiplied = Tensor();
  EXPECT_TRUE(kernels::Unpack(kernels(), args).ok());
  args.shape.cols = 96;
  EXPECT_FALSE(kernels::Unpack(kernels(), args).ok());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Devices, PackedSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
