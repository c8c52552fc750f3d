// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string FileOf(int version, const std::string& dict) {
  std::string file =
      absl::StrCat(kNpyMagic, std::string(1, static_cast<char>(version)), std::string(1, '\0'));
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    file.push_back(static_cast<char>(dict.size() >> (8 * i)));
  return file + dict;
}

absl::StatusOr<NpyHeader> Parse(const std::string& file) {
  return ParseNpyHeader(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
}

constexpr char kGood[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (160, 33), }    \n";

TEST(NpyHeaderTest, ReadsAllVersions) {
  for (const int version : {1, 2, 3}) {
    const std::string file = FileOf(version, kGood);
    const auto header = Parse(file + "data");
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->descr, "<i4");
    EXPECT_FALSE(header->fortran_order);
    EXPECT_THAT(header->shape, ElementsAre(160, 33));
    EXPECT_EQ(header->data_begin, file.size());
  }
}

TEST(NpyHeaderTest, ReadsOtherSpellings) {
  const auto header = Parse(FileOf(1, "{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"|u1\"}"));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_TRUE(header->fortran_order);
  EXPECT_THAT(header->shape, ElementsAre(7));
  EXPECT_THAT(Parse(FileOf(1, "{'descr':'<u2','fortran_order':False,'shape':()}"))->shape,
              IsEmpty());
}

TEST(NpyHeaderTest, RefusesBadDictionaries) {
  for (const char* dict :
       {"", "{", "{}", "{'descr': '<i4'}", "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)",
        "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<i4, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'more': 'x'}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}"}) {
    const auto header = Parse(FileOf(1, dict));
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << dict;
    EXPECT_THAT(std::string(header.status().message()), HasSubstr("bad NumPy header at byte "))
        << dict;
  }
  std::string many = "{'descr': '<i4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 1000; ++i) many += "1, ";
  EXPECT_THAT(std::string(Parse(FileOf(1, many + ")}")).status().message()),
              HasSubstr("at most 32 dimensions"));
}

TEST(NpyHeaderTest, RefusesEveryTruncationAndLyingLengths) {
  const std::string file = FileOf(1, kGood);
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(Parse(file.substr(0, size)).ok()) << size;
  std::string lying = FileOf(2, kGood);
  for (size_t i = 8; i < 12; ++i) lying[i] = '\xff';
  EXPECT_THAT(std::string(Parse(lying).status().message()), HasSubstr("claims 4294967295 bytes"));
  EXPECT_THAT(std::string(Parse(FileOf(4, kGood)).status().message()),
              HasSubstr("version 4 at byte 6"));
  EXPECT_THAT(std::string(Parse("PK\x03\x04").status().message()), HasSubstr("magic"));
}

}  // namespace
}  // namespace zeroth
