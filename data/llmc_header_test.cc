// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

std::string FileOf(int32_t magic, int32_t version, int32_t count, size_t data_bytes) {
  std::string file(kLlmcHeaderBytes + data_bytes, '\0');
  std::memcpy(file.data(), &magic, 4);
  std::memcpy(file.data() + 4, &version, 4);
  std::memcpy(file.data() + 8, &count, 4);
  return file;
}

absl::StatusOr<LlmcHeader> Parse(const std::string& file) {
  return ParseLlmcHeader(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(file.data()), file.size()), file.size());
}

std::string ErrorOf(const std::string& file) {
  const auto header = Parse(file);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(header.status().message());
}

TEST(LlmcHeaderTest, ReadsBothFormats) {
  const auto gpt2 = Parse(FileOf(20240520, 1, 5, 10));
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ(gpt2->count, 5);
  EXPECT_EQ(gpt2->token_bytes, 2u);
  const auto llama = Parse(FileOf(20240801, 7, 5, 20));
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->token_bytes, 4u);
}

TEST(LlmcHeaderTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("magic"));
  EXPECT_THAT(ErrorOf(FileOf(20240522, 1, 5, 10)), HasSubstr("magic 20240520 or 20240801"));
  EXPECT_THAT(ErrorOf(FileOf(20240520, 7, 5, 10)), HasSubstr("version 7 at byte 4, expected 1"));
  EXPECT_THAT(ErrorOf(FileOf(20240801, 1, 5, 20)), HasSubstr("version 1 at byte 4, expected 7"));
  EXPECT_THAT(ErrorOf(FileOf(20240520, 1, 0, 0)), HasSubstr("token count 0 at byte 8"));
  EXPECT_THAT(ErrorOf(FileOf(20240520, 1, -3, 0)), HasSubstr("token count -3"));
  EXPECT_THAT(ErrorOf(FileOf(20240520, 1, 5, 9)),
              HasSubstr("1033 bytes, expected 1034 for 5 tokens of 2 bytes"));
  EXPECT_THAT(ErrorOf(FileOf(20240520, 1, 5, 11)), HasSubstr("expected 1034"));
  EXPECT_THAT(ErrorOf(FileOf(20240801, 7, 2147483647, 4)), HasSubstr("expected 8589935612"));
  EXPECT_THAT(ErrorOf(FileOf(20240520, 1, 5, 10).substr(0, 1023)),
              HasSubstr("truncated: 1023 bytes"));
}

}  // namespace
}  // namespace zeroth
