// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors_format.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string FileOf(uint64_t announced, const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &announced, 8);
  return file + header + std::string(data_bytes, 'd');
}

std::string FileOf(const std::string& header, size_t data_bytes) {
  return FileOf(header.size(), header, data_bytes);
}

absl::StatusOr<SafetensorsHeader> Parse(const std::string& file) {
  return ParseSafetensorsHeader(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(file.data()), file.size()),
      static_cast<int64_t>(file.size()), "m.safetensors");
}

std::string ErrorOf(const std::string& file) {
  const auto header = Parse(file);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(header.status().message()), HasSubstr("m.safetensors: "));
  return std::string(header.status().message());
}

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return absl::StrCat("\"", name, R"(":{"dtype":")", dtype, R"(","shape":)", shape,
                      R"(,"data_offsets":)", offsets, "}");
}

TEST(SafetensorsFormatTest, ReadsAGoodHeader) {
  const std::string text = absl::StrCat(
      "{", Entry("b", "F32", "[2,3]", "[4,28]"), ",", R"("__metadata__":{"format":"pt","k":""},)",
      Entry("a", "BF16", "[2]", "[0,4]"), ",", Entry("none", "I64", "[0,7]", "[28,28]"), ",",
      Entry("scalar", "U8", "[]", "[28,29]"), "}   ");
  const auto header = Parse(FileOf(text, 29));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->data_begin, static_cast<int64_t>(8 + text.size()));
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"k", ""}}));
  ASSERT_EQ(header->tensors.size(), 4u);
  const SafetensorsEntry& b = header->tensors.find("b")->second;
  EXPECT_EQ(b.dtype, SafetensorsDType::kF32);
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(b.begin, 4);
  EXPECT_EQ(b.end, 28);
  EXPECT_EQ(header->tensors.find("scalar")->second.shape.rank(), 0);
}

TEST(SafetensorsFormatTest, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(Parse(FileOf("{}", 0)).ok());
  EXPECT_THAT(ErrorOf(FileOf("{}", 1)),
              HasSubstr("[0, 1) after the last tensor belong to no tensor"));
}

TEST(SafetensorsFormatTest, ChecksTheHeaderLength) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("0 bytes, expected at least 8"));
  EXPECT_THAT(ErrorOf("1234567"), HasSubstr("7 bytes, expected at least 8"));
  EXPECT_THAT(ErrorOf(FileOf(0, "", 0)), HasSubstr("does not begin with"));
  EXPECT_THAT(ErrorOf(FileOf(3, "{}", 0)), HasSubstr("a header of 3 bytes, but only 2 follow"));
  EXPECT_THAT(ErrorOf(FileOf(100'000'001, "{}", 0)), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(ErrorOf(FileOf(~uint64_t{0}, "{}", 0)), HasSubstr("expected at most 100000000"));
  // 8 + this wraps around to 0.
  EXPECT_THAT(ErrorOf(FileOf(~uint64_t{0} - 7, "{}", 0)), HasSubstr("expected at most 100000000"));
}

TEST(SafetensorsFormatTest, EveryTruncationOfAGoodFileIsRefused) {
  const std::string good = FileOf(absl::StrCat("{", Entry("a", "F32", "[2]", "[0,8]"), ",",
                                               Entry("b", "F16", "[3]", "[8,14]"), "}"),
                                  14);
  ASSERT_TRUE(Parse(good).ok());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(Parse(good.substr(0, size)).ok()) << size;
  EXPECT_FALSE(Parse(good + "x").ok());
}

// Any change of one byte leaves a file that is refused, or one whose every entry is consistent:
// never a crash, never a range outside the data.
TEST(SafetensorsFormatTest, SurvivesEveryChangedByte) {
  const std::string good = FileOf(absl::StrCat("{", Entry("a", "F32", "[2,1]", "[0,8]"), ",",
                                               Entry("b", "F16", "[3]", "[8,14]"), "}"),
                                  14);
  for (size_t place = 0; place < good.size() - 14; ++place) {
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[place] = static_cast<char>(bad[place] ^ change);
      const auto header = Parse(bad);
      if (!header.ok()) continue;
      for (const auto& [name, entry] : header->tensors) {
        EXPECT_GE(entry.begin, 0);
        EXPECT_LE(header->data_begin + entry.end, static_cast<int64_t>(bad.size()));
        EXPECT_EQ(*SafetensorsBytes(entry.dtype, entry.shape.dims()), entry.end - entry.begin);
      }
    }
  }
}

TEST(SafetensorsFormatTest, ChecksTheJson) {
  EXPECT_THAT(ErrorOf(FileOf("[]", 0)), HasSubstr("does not begin with"));
  EXPECT_THAT(ErrorOf(FileOf(" {}", 0)), HasSubstr("does not begin with"));
  EXPECT_THAT(ErrorOf(FileOf("{} x", 0)), HasSubstr("bad JSON"));
  EXPECT_THAT(ErrorOf(FileOf("{\"a\":", 0)), HasSubstr("bad JSON"));
  EXPECT_THAT(ErrorOf(FileOf("{\"\xff\":{}}", 0)), HasSubstr("bad JSON"));
  EXPECT_THAT(ErrorOf(FileOf(R"({"a":1})", 0)), HasSubstr("tensor \"a\": 1, expected an object"));
  EXPECT_THAT(ErrorOf(FileOf(R"({"a":[]})", 0)), HasSubstr("tensor \"a\": [], expected an object"));
  EXPECT_THAT(ErrorOf(FileOf(R"({"a":{"dtype":{}}})", 0)),
              HasSubstr("tensor \"a\": \"dtype\": {}, expected a string"));
  EXPECT_THAT(ErrorOf(FileOf("{" + Entry("a", "F32", "\"x\"", "[0,0]") + "}", 0)),
              HasSubstr("\"shape\": \"x\", expected an array"));
  EXPECT_THAT(ErrorOf(FileOf("{" + Entry("a", "F32", "[true]", "[0,0]") + "}", 0)),
              HasSubstr("\"shape\": true, expected an integer"));
  EXPECT_THAT(ErrorOf(FileOf("{" + Entry("a", "F32", "[0],\"colour\":1", "[0,0]") + "}", 0)),
              HasSubstr("field \"colour\" is unknown"));
  EXPECT_THAT(ErrorOf(FileOf(R"({"__metadata__":{"a":1}})", 0)),
              HasSubstr("\"__metadata__\": \"a\": 1, expected a string"));
  for (const char* other : {"[]", "null", "1", "\"pt\""}) {
    EXPECT_THAT(ErrorOf(FileOf(absl::StrCat("{\"__metadata__\":", other, "}"), 0)),
                HasSubstr("expected an object"));
  }
  EXPECT_THAT(ErrorOf(FileOf(R"({"a":{"shape":[],"shape":[]}})", 0)),
              HasSubstr("\"shape\" appears twice"));
  EXPECT_THAT(ErrorOf(FileOf(R"({"__metadata__":{},"__metadata__":{}})", 0)),
              HasSubstr("appears twice"));
}

TEST(SafetensorsFormatTest, HostileJsonCostsNothing) {
  std::string deep = "{\"a\":";
  deep.append(20'000'000, '[');
  EXPECT_THAT(ErrorOf(FileOf(deep, 0)), HasSubstr("nested deeper than 3 levels"));
  std::string dims = "[1";
  for (int i = 0; i < 1000; ++i) dims += ",1";
  EXPECT_THAT(ErrorOf(FileOf("{" + Entry("a", "F32", dims + "]", "[0,4]") + "}", 4)),
              HasSubstr(absl::StrCat("at most ", Shape::kMaxRank, " are supported")));
}

TEST(SafetensorsFormatTest, ChecksEachEntry) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets, size_t data) {
    return ErrorOf(FileOf("{" + Entry("w", dtype, shape, offsets) + "}", data));
  };
  EXPECT_THAT(one("F33", "[1]", "[0,4]", 4),
              AllOf(HasSubstr("tensor \"w\""), HasSubstr("unknown dtype \"F33\"")));
  EXPECT_THAT(one("F32", "[2]", "[0,4]", 4), HasSubstr("span 4 bytes, expected 8 for F32 [2]"));
  EXPECT_THAT(one("F32", "[1]", "[4,0]", 4), HasSubstr("end before they begin"));
  EXPECT_THAT(one("F32", "[2]", "[0,8]", 4), HasSubstr("leave the 4 bytes of data"));
  EXPECT_THAT(one("F32", "[1]", "[0,4,8]", 8), HasSubstr("expected [begin, end]"));
  EXPECT_THAT(one("F32", "[1]", "[-4,0]", 4),
              HasSubstr("\"data_offsets\": -4, expected an integer from 0"));
  EXPECT_THAT(one("F32", "[1.5]", "[0,4]", 4), HasSubstr("\"shape\": 1.5, expected an integer"));
  EXPECT_THAT(one("F32", "[18446744073709551615]", "[0,4]", 4),
              HasSubstr("\"shape\": 18446744073709551615, expected an integer from 0 to 92"));
  // 2^62 * 4 elements of 4 bytes: the product wraps to 0 in 64 bits.
  EXPECT_THAT(one("F32", "[4611686018427387904,4]", "[0,0]", 0), HasSubstr("overflows 63 bits"));
  EXPECT_THAT(one("F4", "[3]", "[0,2]", 2), HasSubstr("has 12 bits, expected a multiple of 8"));
  EXPECT_THAT(ErrorOf(FileOf(R"({"w":{"dtype":"F32","shape":[1]}})", 0)),
              HasSubstr("no \"data_offsets\""));
}

TEST(SafetensorsFormatTest, ChecksThatTensorsTileTheData) {
  const auto two = [](const std::string& a, const std::string& b, size_t data) {
    return ErrorOf(
        FileOf("{" + Entry("a", "F32", "[2]", a) + "," + Entry("b", "F32", "[2]", b) + "}", data));
  };
  EXPECT_THAT(two("[0,8]", "[4,12]", 12),
              HasSubstr("\"a\" and \"b\" overlap in the data bytes [4, 8)"));
  EXPECT_THAT(two("[0,8]", "[0,8]", 8), HasSubstr("overlap in the data bytes [0, 8)"));
  EXPECT_THAT(two("[0,8]", "[12,20]", 20),
              HasSubstr("[8, 12) before tensor \"b\" belong to no tensor"));
  EXPECT_THAT(two("[4,12]", "[12,20]", 20), HasSubstr("[0, 4) before tensor \"a\""));
  EXPECT_THAT(two("[0,8]", "[8,16]", 17), HasSubstr("[16, 17) after the last tensor"));
  const std::string entry = Entry("a", "F32", "[1]", "[0,4]");
  EXPECT_THAT(ErrorOf(FileOf("{" + entry + "," + entry + "}", 4)),
              HasSubstr("the key \"a\" appears twice"));
}

TEST(SafetensorsFormatTest, NamesAndSizesOfTypes) {
  for (int i = 0; i < 20; ++i) {
    const auto dtype = static_cast<SafetensorsDType>(i);
    EXPECT_EQ(*ParseSafetensorsDType(SafetensorsDTypeName(dtype)), dtype);
  }
  EXPECT_EQ(BitsOf(SafetensorsDType::kBF16), 16);
  EXPECT_EQ(BitsOf(SafetensorsDType::kC64), 64);
  EXPECT_EQ(BitsOf(SafetensorsDType::kF6E3M2), 6);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                            DType::kInt64, DType::kUInt8}) {
    EXPECT_EQ(static_cast<size_t>(BitsOf(ToSafetensorsDType(dtype))), 8 * SizeOf(dtype));
  }
  const std::vector<int64_t> absurd = {int64_t{1} << 62, 0, int64_t{1} << 62};
  EXPECT_EQ(*SafetensorsBytes(SafetensorsDType::kF32, absurd), 0);
}

}  // namespace
}  // namespace zeroth
