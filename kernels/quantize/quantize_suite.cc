// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/quantize/quantize.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class QuantizeSuite : public KernelsSuite {
 protected:
  Tensor UploadBytes(const std::vector<uint8_t>& bytes);
  std::vector<uint8_t> DownloadBytes(const Tensor& tensor);
  std::vector<float> RandomValues(int64_t count);
};

namespace {

// Computes codes and scales one by one, by the definition.
std::vector<uint8_t> QuantizedOnHost(const QuantizedBlocks& shape,
                                     const std::vector<float>& values) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.bytes()));
  for (int64_t block = 0; block < shape.blocks(); ++block) {
    const int64_t begin = block * shape.block;
    const int64_t end = std::min(begin + shape.block, shape.count);
    float largest = 0;
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
      const float x = values[static_cast<size_t>(i)];
      finite = finite && std::isfinite(x);
      largest = std::max(largest, std::abs(x));
    }
    const bool zero = !finite || largest < QuantizedBlocks::kSmallestMagnitude;
    const float scale = !finite ? std::numeric_limits<float>::quiet_NaN()
                        : zero  ? 0
                                : largest / 127;
    std::memcpy(&bytes[static_cast<size_t>(shape.scales_offset() + block * 4)], &scale, 4);
    for (int64_t i = begin; i < end && !zero; ++i) {
      const float inverse = 127.0f / largest;
      const float code = std::nearbyint(values[static_cast<size_t>(i)] * inverse);
      bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(static_cast<int8_t>(code));
    }
  }
  return bytes;
}

float ValueOnHost(const QuantizedBlocks& shape, const std::vector<uint8_t>& bytes, int64_t piece,
                  int64_t at) {
  const uint8_t* const base = bytes.data() + piece * shape.bytes();
  float scale;
  std::memcpy(&scale, base + shape.scales_offset() + at / shape.block * 4, 4);
  return static_cast<float>(static_cast<int8_t>(base[at])) * scale;
}

// Sums terms [begin, end) along the fixed tree.
float TreeSum(const std::vector<float>& terms, size_t begin, size_t end) {
  if (end - begin == 1) return terms[begin];
  size_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return TreeSum(terms, begin, begin + half) + TreeSum(terms, begin + half, end);
}

}  // namespace

Tensor QuantizeSuite::UploadBytes(const std::vector<uint8_t>& bytes) {
  absl::StatusOr<Tensor> tensor = Tensor::FromHost<uint8_t>(
      device(), Shape({static_cast<int64_t>(bytes.size())}), bytes, MemoryCategory::kCommunication);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return *tensor;
}

std::vector<uint8_t> QuantizeSuite::DownloadBytes(const Tensor& tensor) {
  absl::StatusOr<std::vector<uint8_t>> bytes = tensor.ToHost<uint8_t>();
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *bytes;
}

std::vector<float> QuantizeSuite::RandomValues(int64_t count) {
  std::vector<float> values = RandomNormal(count);
  // Blocks of very different sizes.
  for (float& value : values) value *= std::ldexp(1.0f, static_cast<int>(RandomSize(-6, 6)));
  return values;
}

TEST_P(QuantizeSuite, BlocksAreWhatTheDefinitionSays) {
  for (int i = 0; i < 60; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const QuantizedBlocks shape{RandomSize(0, 700), i % 4 == 0 ? 256 : RandomSize(1, 90)};
    const std::vector<float> values = RoundTo(dtype, RandomValues(shape.count));
    QuantizeArgs args;
    args.values = Upload({shape.count}, values, dtype);
    args.block = shape.block;
    args.quantized = UploadBytes(std::vector<uint8_t>(static_cast<size_t>(shape.bytes()), 0xab));
    ASSERT_EQ(kernels::Quantize(kernels(), args), absl::OkStatus());
    ASSERT_EQ(DownloadBytes(args.quantized), QuantizedOnHost(shape, values))
        << shape.count << " values of " << DTypeName(dtype) << " in blocks of " << shape.block;
  }
}

TEST_P(QuantizeSuite, ComesBackWithinHalfAScale) {
  for (int i = 0; i < 30; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t pieces = RandomSize(1, 4);
    const QuantizedBlocks shape{RandomSize(0, 400), RandomSize(1, 128)};
    std::vector<uint8_t> bytes;
    std::vector<float> values;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const std::vector<float> part = RandomValues(shape.count);
      const std::vector<uint8_t> quantized = QuantizedOnHost(shape, part);
      values.insert(values.end(), part.begin(), part.end());
      bytes.insert(bytes.end(), quantized.begin(), quantized.end());
    }
    DequantizeArgs args;
    args.quantized = UploadBytes(bytes);
    args.pieces = pieces;
    args.block = shape.block;
    args.values = Unwritten({pieces * shape.count}, dtype);
    ASSERT_EQ(kernels::Dequantize(kernels(), args), absl::OkStatus());
    const std::vector<float> back = Download(args.values);
    for (int64_t at = 0; at < pieces * shape.count; ++at) {
      const int64_t piece = at / shape.count;
      const int64_t inside = at % shape.count;
      const float expected = ValueOnHost(shape, bytes, piece, inside);
      const float rounded = RoundTo(dtype, {expected})[0];
      ASSERT_EQ(back[static_cast<size_t>(at)], rounded);
      float largest = 0;
      const int64_t begin = inside / shape.block * shape.block;
      for (int64_t j = begin; j < std::min(begin + shape.block, shape.count); ++j) {
        largest = std::max(largest, std::abs(values[static_cast<size_t>(piece * shape.count + j)]));
      }
      ASSERT_LE(std::abs(expected - values[static_cast<size_t>(at)]), largest / 127 * 0.5001f);
    }
  }
}

TEST_P(QuantizeSuite, SumsHaveTheBitsOfTheTree) {
  for (int64_t pieces = 1; pieces <= 9; ++pieces) {
    for (const DType dtype : kElementTypes) {
      const QuantizedBlocks shape{RandomSize(1, 300), RandomSize(1, 64)};
      const bool mean = RandomSize(0, 1) == 1;
      const bool accumulate = dtype == DType::kFloat32 && RandomSize(0, 1) == 1;
      std::vector<uint8_t> bytes;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const std::vector<uint8_t> part = QuantizedOnHost(shape, RandomNormal(shape.count));
        bytes.insert(bytes.end(), part.begin(), part.end());
      }
      const std::vector<float> old = RandomNormal(shape.count);
      SumQuantizedArgs args;
      args.quantized = UploadBytes(bytes);
      args.pieces = pieces;
      args.block = shape.block;
      args.mean = mean;
      args.accumulate = accumulate;
      args.sum = accumulate ? Upload({shape.count}, old) : Unwritten({shape.count}, dtype);
      ASSERT_EQ(kernels::SumQuantized(kernels(), args), absl::OkStatus());
      const std::vector<float> sums = Download(args.sum);
      for (int64_t at = 0; at < shape.count; ++at) {
        std::vector<float> terms;
        for (int64_t piece = 0; piece < pieces; ++piece) {
          terms.push_back(ValueOnHost(shape, bytes, piece, at));
        }
        float expected = TreeSum(terms, 0, terms.size());
        expected *= mean ? 1.0f / static_cast<float>(pieces) : 1.0f;
        if (accumulate) expected = old[static_cast<size_t>(at)] + expected;
        ASSERT_EQ(sums[static_cast<size_t>(at)], RoundTo(dtype, {expected})[0])
            << pieces << " pieces, element " << at;
      }
    }
  }
}

TEST_P(QuantizeSuite, WhatIsNotFiniteComesBackAsNaN) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const DType dtype : kElementTypes) {
      std::vector<float> values = RandomNormal(96);
      values[40] = bad;
      QuantizeArgs args;
      args.values = Upload({96}, values, dtype);
      args.block = 32;
      args.quantized = UploadBytes(std::vector<uint8_t>(112));
      ASSERT_EQ(kernels::Quantize(kernels(), args), absl::OkStatus());
      DequantizeArgs back{args.quantized, 1, 32, Unwritten({96}, dtype)};
      ASSERT_EQ(kernels::Dequantize(kernels(), back), absl::OkStatus());
      const std::vector<float> result = Download(back.values);
      for (size_t i = 0; i < 96; ++i) {
        EXPECT_EQ(std::isnan(result[i]), i / 32 == 1) << i;
      }
    }
  }
}

TEST_P(QuantizeSuite, RefusesWhatDoesNotFit) {
  QuantizeArgs args;
  args.values = Upload({5}, {1, 2, 3, 4, 5});
  args.block = 2;
  args.quantized = UploadBytes(std::vector<uint8_t>(31));
  ExpectInvalid(kernels::Quantize(kernels(), args),
                {"Quantize", "quantized is [31], expected [32]"});
  args.block = 0;
  ExpectInvalid(kernels::Quantize(kernels(), args), {"Quantize", "block is 0"});
  DequantizeArgs back;
  back.values = args.values;
  back.quantized = args.quantized;
  back.pieces = 2;
  ExpectInvalid(kernels::Dequantize(kernels(), back), {"Dequantize", "values is [5]", "2 pieces"});
  back.pieces = 0;
  ExpectInvalid(kernels::Dequantize(kernels(), back), {"Dequantize", "pieces is 0"});
  SumQuantizedArgs sum;
  sum.sum = Upload({5}, {1, 2, 3, 4, 5}, DType::kBFloat16);
  sum.quantized = args.quantized;
  sum.accumulate = true;
  ExpectInvalid(kernels::SumQuantized(kernels(), sum),
                {"SumQuantized", "sum is bf16", "accumulate"});
}

INSTANTIATE_TEST_SUITE_P(Devices, QuantizeSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
