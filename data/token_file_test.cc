// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_file.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/test_token_files.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> ReadAll(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.size()));
  const absl::Status status = source.Read(0, absl::MakeSpan(ids));
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

template <typename T>
void ExpectNpyStream(const TemporaryDirectory& dir, const char* descr) {
  const auto source =
      OpenNpyFile(dir.Write("t.npy", NpyBytes<T>(descr, "(4,)", {3, 0, 99, 7})), 100);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->row_length(), 0);
  EXPECT_THAT(ReadAll(**source), ElementsAre(3, 0, 99, 7)) << descr;
}

TEST(TokenFileTest, ReadsEveryElementType) {
  const TemporaryDirectory dir;
  ExpectNpyStream<uint8_t>(dir, "|u1");
  ExpectNpyStream<uint16_t>(dir, "<u2");
  ExpectNpyStream<uint32_t>(dir, "<u4");
  ExpectNpyStream<uint64_t>(dir, "<u8");
  ExpectNpyStream<int32_t>(dir, "<i4");
  ExpectNpyStream<int64_t>(dir, "<i8");
}

void ExpectCutShortIsAnError(const std::string& path,
                             absl::StatusOr<std::shared_ptr<const TokenSource>> source) {
  ASSERT_TRUE(source.ok()) << source.status();
  const auto left = static_cast<int64_t>(std::filesystem::file_size(path)) / 2;
  std::filesystem::resize_file(path, static_cast<uintmax_t>(left));
  std::vector<int32_t> ids(100);
  EXPECT_EQ((*source)->Read(0, absl::MakeSpan(ids)), absl::OkStatus());
  const absl::Status status = (*source)->Read((*source)->size() - 100, absl::MakeSpan(ids));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::ContainsRegex(path + ": ends at or before byte [0-9]+, .* been truncated"));
}

TEST(TokenFileTest, AFileThatIsCutShortWhileItIsReadIsAnError) {
  const TemporaryDirectory dir;
  const std::string npy =
      dir.Write("t.npy", NpyBytes<int32_t>("<i4", "(50000,)", std::vector<int32_t>(50000, 7)));
  ExpectCutShortIsAnError(npy, OpenNpyFile(npy, 100));
  const std::string bin = dir.Write("t.bin", LlmcBytes<uint16_t>(std::vector<uint16_t>(50000, 7)));
  ExpectCutShortIsAnError(bin, OpenLlmcFile(bin, 100));
}

TEST(TokenFileTest, ReadsRowsAndRanges) {
  const TemporaryDirectory dir;
  const auto source =
      OpenNpyFile(dir.Write("t.npy", NpyBytes<uint16_t>("<u2", "(2, 3)", {1, 2, 3, 4, 5, 6})), 100);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->row_length(), 3);
  EXPECT_EQ((*source)->size(), 6);
  std::vector<int32_t> ids(2);
  ASSERT_TRUE((*source)->Read(3, absl::MakeSpan(ids)).ok());
  EXPECT_THAT(ids, ElementsAre(4, 5));
  EXPECT_EQ((*source)->Read(5, absl::MakeSpan(ids)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*source)->Read(-1, absl::MakeSpan(ids)).code(), absl::StatusCode::kOutOfRange);
}

TEST(TokenFileTest, ReadsWhatNumpyWrote) {
  const auto source = OpenNpyFile("tests/testdata/gpt2_tiny/tokens.npy", 257);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->row_length(), 33);
  EXPECT_EQ((*source)->size(), 160 * 33);
  const std::vector<int32_t> ids = ReadAll(**source);
  EXPECT_THAT(std::vector<int32_t>(ids.begin(), ids.begin() + 3), ElementsAre(153, 159, 165));
  EXPECT_EQ(ids.back(), 155);
}

TEST(TokenFileTest, ReadsLlmcShards) {
  const TemporaryDirectory dir;
  const auto gpt2 =
      OpenLlmcFile(dir.Write("a.bin", LlmcBytes<uint16_t>({50256, 1, 65535})), 70'000);
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_THAT(ReadAll(**gpt2), ElementsAre(50256, 1, 65535));
  const auto llama = OpenLlmcFile(dir.Write("b.bin", LlmcBytes<uint32_t>({128000, 1})), 128256);
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_THAT(ReadAll(**llama), ElementsAre(128000, 1));
}

TEST(TokenFileTest, IdsOutsideTheVocabularyAreNamedWhenRead) {
  const TemporaryDirectory dir;
  const auto check = [](const absl::StatusOr<std::shared_ptr<const TokenSource>>& source,
                        const char* id) {
    ASSERT_TRUE(source.ok()) << source.status();
    std::vector<int32_t> ids(2);
    EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
    const absl::Status status = (*source)->Read(1, absl::MakeSpan(ids));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("token 2 is ") + id + ", expected 0 to 9"));
    EXPECT_THAT(std::string(status.message()), HasSubstr((*source)->description()));
  };
  check(OpenNpyFile(dir.Write("a.npy", NpyBytes<uint16_t>("<u2", "(3,)", {0, 9, 10})), 10), "10");
  check(OpenNpyFile(dir.Write("b.npy", NpyBytes<int32_t>("<i4", "(3,)", {0, 9, -1})), 10), "-1");
  check(OpenNpyFile(dir.Write("c.npy", NpyBytes<int64_t>("<i8", "(3,)", {0, 9, int64_t{1} << 32})),
                    10),
        "4294967296");
  check(
      OpenNpyFile(dir.Write("d.npy", NpyBytes<uint64_t>("<u8", "(3,)", {0, 9, ~uint64_t{0}})), 10),
      "18446744073709551615");
  check(OpenLlmcFile(dir.Write("e.bin", LlmcBytes<uint16_t>({0, 9, 50256})), 10), "50256");
}

TEST(TokenFileTest, BadFilesAreRefused) {
  const TemporaryDirectory dir;
  const auto error = [&dir](const std::string& bytes) {
    const auto source = OpenNpyFile(dir.Write("t.npy", bytes), 100);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(dir.File("t.npy: ")));
    return std::string(source.status().message());
  };
  const std::vector<int32_t> values = {1, 2, 3, 4};
  EXPECT_THAT(error(""), HasSubstr("magic"));
  EXPECT_THAT(error(NpyBytes("<i4", "(5,)", values)),
              HasSubstr("does not match the 16 bytes after the header"));
  EXPECT_THAT(error(NpyBytes("<i4", "(3,)", values)), HasSubstr("does not match"));
  EXPECT_THAT(error(NpyBytes("<i4", "(0,)", std::vector<int32_t>())), HasSubstr("holds no tokens"));
  EXPECT_THAT(error(NpyBytes("<i4", "(4, 0)", std::vector<int32_t>())),
              HasSubstr("holds no tokens"));
  EXPECT_THAT(error(NpyBytes("<i4", "()", values)), HasSubstr("expected one dimension"));
  EXPECT_THAT(error(NpyBytes("<i4", "(2, 2, 1)", values)), HasSubstr("expected one dimension"));
  EXPECT_THAT(error(NpyBytes("<f4", "(4,)", values)),
              HasSubstr("elements are '<f4', expected one of |u1"));
  EXPECT_THAT(error(NpyBytes(">i4", "(4,)", values)), HasSubstr("elements are '>i4'"));
  EXPECT_THAT(error(NpyBytes("<i4", "(2, 2)", values, "True")), HasSubstr("Fortran order"));
  // Products that wrap to 16 bytes in 64 bits.
  EXPECT_THAT(error(NpyBytes("<i4", "(4611686018427387908,)", values)),
              HasSubstr("does not match"));
  EXPECT_THAT(error(NpyBytes("<i4", "(4294967296, 4294967296)", values)), HasSubstr("overflows"));
  EXPECT_EQ(OpenNpyFile(dir.File("absent"), 100).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenLlmcFile(dir.Write("t.bin", "x"), 100).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth
