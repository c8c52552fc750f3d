// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/checksum.h"

#include <xxhash.h>

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(ChecksumTest, IsTheOneThatTheFormatNames) {
  // Files outlive libraries: the value for no bytes is in XXH3's specification.
  EXPECT_EQ(ChecksumText(ChecksumOf(absl::string_view())), "2d06800538d394c2");
}

TEST(ChecksumTest, EveryProcessorComputesTheSame) {
  std::string text(5000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i % 251);
  // The library's own, whose vectors are those of any processor of the architecture.
  for (size_t size = 0; size < text.size(); size += size < 600 ? 1 : 97) {
    for (const size_t begin : {0u, 1u, 7u}) {
      const auto part = absl::string_view(text).substr(begin, size);
      EXPECT_EQ(ChecksumOf(part), XXH3_64bits(part.data(), part.size())) << size;
    }
  }
}

TEST(ChecksumTest, SeesEveryBit) {
  for (const size_t size : {1u, 17u, 129u, 300u}) {
    std::string text(size, 'x');
    const uint64_t whole = ChecksumOf(text);
    for (size_t i = 0; i < size * 8; ++i) {
      text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << (i % 8)));
      EXPECT_NE(ChecksumOf(text), whole) << i;
      text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << (i % 8)));
    }
    EXPECT_EQ(ChecksumOf(text), whole);
  }
}

TEST(ChecksumTest, TextsReadBack) {
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, uint64_t{0xfedcba9876543210}, ~uint64_t{0}}) {
    const auto parsed = ParseChecksum(ChecksumText(value));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, value);
  }
  for (const char* text : {"", "0", "000000000000000g", "000000000000000A", "00000000000000001"}) {
    EXPECT_EQ(ParseChecksum(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace zeroth
