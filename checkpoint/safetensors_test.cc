// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

// A file of one tensor "w" with these elements, behind a one-byte tensor that spoils their
// alignment.
template <typename T>
std::string OneTensor(const std::string& dtype, const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  const std::string header =
      absl::StrCat(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":")", dtype,
                   R"(","shape":[)", values.size(), R"(],"data_offsets":[1,)", bytes + 1, "]}}");
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += header;
  file += '\x07';
  file.append(reinterpret_cast<const char*>(values.data()), bytes);
  return file;
}

std::vector<float> ReadWhole(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(file.Find(name)->shape.numel()));
  const absl::Status status = file.ReadElements(name, 0, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

TEST(SafetensorsFileTest, ReadsUnalignedFloat32AndItsRanges) {
  const TemporaryDirectory dir;
  std::vector<float> values;
  for (int i = 0; i < 37; ++i) values.push_back(static_cast<float>(i) / 3 - 5);
  const auto file = SafetensorsFile::Open(dir.Write("f", OneTensor("F32", values)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ReadWhole(**file, "w"), values);
  for (int64_t begin = 0; begin <= 37; ++begin) {
    for (int64_t end = begin; end <= 37; ++end) {
      std::vector<float> piece(static_cast<size_t>(end - begin));
      ASSERT_TRUE((*file)->ReadElements("w", begin, absl::MakeSpan(piece)).ok());
      ASSERT_EQ(piece, std::vector<float>(values.begin() + begin, values.begin() + end));
    }
  }
}

// Values computed from the definition of the format, with ldexp.
TEST(SafetensorsFileTest, ConvertsEveryFloat16) {
  const TemporaryDirectory dir;
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const auto file = SafetensorsFile::Open(dir.Write("f", OneTensor("F16", bits)));
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<float> read = ReadWhole(**file, "w");
  for (size_t i = 0; i < bits.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const int fraction = static_cast<int>(i & 1023);
    const double sign = (i & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(read[i]), fraction != 0);
      EXPECT_EQ(std::isinf(read[i]), fraction == 0);
    } else {
      const double expected = sign * (exponent == 0 ? std::ldexp(fraction, -24)
                                                    : std::ldexp(1024 + fraction, exponent - 25));
      ASSERT_EQ(static_cast<double>(read[i]), expected) << i;
    }
  }
}

TEST(SafetensorsFileTest, ConvertsBFloat16AndFloat64) {
  const TemporaryDirectory dir;
  const std::vector<uint16_t> bits = {0x3F80, 0xC000, 0x0001, 0x7F80, 0x4049};
  const auto bf16 = SafetensorsFile::Open(dir.Write("b", OneTensor("BF16", bits)));
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  const std::vector<float> from_bf16 = ReadWhole(**bf16, "w");
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(from_bf16[i], std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16));
  }

  const std::vector<double> doubles = {1.0 / 3, -2.5, 1e300, 1 + std::ldexp(1, -24),
                                       1 + std::ldexp(3, -24)};
  const auto f64 = SafetensorsFile::Open(dir.Write("d", OneTensor("F64", doubles)));
  ASSERT_TRUE(f64.ok()) << f64.status();
  EXPECT_EQ(ReadWhole(**f64, "w"),
            (std::vector<float>{1.0f / 3, -2.5f, std::numeric_limits<float>::infinity(), 1.0f,
                                1.0f + std::ldexp(1.0f, -22)}));
}

TEST(SafetensorsFileTest, ErrorsNameFileTensorAndRange) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f", OneTensor<float>("F32", {1, 2, 3}));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> out(2);
  const auto read = [&](const char* name, int64_t begin) {
    return (*file)->ReadElements(name, begin, absl::MakeSpan(out));
  };
  EXPECT_TRUE(read("w", 1).ok());
  for (const int64_t begin : {int64_t{-1}, int64_t{2}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(read("w", begin).code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(read("w", begin).message()),
                HasSubstr("of tensor \"w\", which has 3 in shape [3]"));
  }
  EXPECT_EQ(read("wx", 0).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(read("wx", 0).message()),
              HasSubstr(absl::StrCat(
                  path, ": no tensor \"wx\" among its 2 tensors; the nearest names are w, a")));
  EXPECT_EQ(read("a", 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(read("a", 0).message()), HasSubstr("is U8, expected F32"));
  EXPECT_EQ(*(*file)->RawBytes("a"), std::vector<uint8_t>{7});
  EXPECT_EQ(SafetensorsFile::Open(dir.File("absent")).status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsFileTest, AFileThatIsCutShortWhileItIsReadIsAnError) {
  for (const char* type : {"F32", "F64"}) {
    const TemporaryDirectory dir;
    const int64_t numel = 100'000;
    const std::string path =
        dir.Write("f", type[1] == '3' ? OneTensor(type, std::vector<float>(numel))
                                      : OneTensor(type, std::vector<double>(numel)));
    const auto file = SafetensorsFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    std::vector<float> out(numel);
    EXPECT_EQ((*file)->ReadElements("w", 0, absl::MakeSpan(out).subspan(0, numel / 4)),
              absl::OkStatus());
    for (const int64_t begin : {int64_t{0}, numel - 10}) {
      const absl::Status status = (*file)->ReadElements(
          "w", begin, absl::MakeSpan(out).subspan(static_cast<size_t>(begin)));
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(
          std::string(status.message()),
          ::testing::ContainsRegex(path + ": ends at or before byte [0-9]+, .* been truncated"));
    }
    EXPECT_EQ((*file)->RawBytes("w").status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(WeightsSourceTest, ReadAllChecksTheShape) {
  const TemporaryDirectory dir;
  const auto file = SafetensorsFile::Open(dir.Write("f", OneTensor<float>("F32", {1, 2, 3})));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->ReadAll("w", Shape{3}), (std::vector<float>{1, 2, 3}));
  EXPECT_THAT(std::string((*file)->ReadAll("w", Shape{3, 1}).status().message()),
              HasSubstr("tensor \"w\" has shape [3], expected [3, 1]"));
  EXPECT_EQ((*file)->ShapeOf("v").status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsFileTest, OpensWhatTransformersWrote) {
  const auto gpt2 = SafetensorsFile::Open("tests/testdata/gpt2_tiny/model.safetensors");
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ((*gpt2)->metadata().find("format")->second, "pt");
  EXPECT_EQ(*(*gpt2)->ShapeOf("transformer.wte.weight"), (Shape{257, 60}));
  EXPECT_EQ(*(*gpt2)->ShapeOf("transformer.h.2.attn.c_attn.weight"), (Shape{60, 180}));
  // The first, middle and last elements, read from the file by other means.
  const std::vector<float> embedding = ReadWhole(**gpt2, "transformer.wte.weight");
  EXPECT_EQ(embedding.front(), 0x1.21d36cp-8f);
  EXPECT_EQ(embedding[7710], -0x1.72c44ep-6f);
  EXPECT_EQ(embedding.back(), 0x1.850a98p-7f);
  const std::vector<float> expand = ReadWhole(**gpt2, "transformer.h.1.mlp.c_fc.weight");
  EXPECT_EQ(expand.front(), 0x1.769b1p-6f);
  EXPECT_EQ(expand[7200], 0x1.b15fa4p-7f);
  EXPECT_EQ(expand.back(), -0x1.93bd3p-9f);

  const auto llama = SafetensorsFile::Open("tests/testdata/llama_tiny/final.safetensors");
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(*(*llama)->ShapeOf("model.layers.0.self_attn.k_proj.weight"), (Shape{20, 60}));
}

}  // namespace
}  // namespace zeroth
