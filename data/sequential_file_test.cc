// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The files are those of gzip and zstd: tests/testdata/compressed/gen.py.

#include "zeroth/data/sequential_file.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Packed(const std::string& name) {
  return ReadTestFile(absl::StrCat("tests/testdata/compressed/", name));
}

std::string Lines() {
  std::string lines;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&lines, "{\"text\": \"Line ", i, " of many.\"}\n");
  return lines;
}

class SequentialFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_.Write("empty", "");
    const absl::Status status =
        SequentialFile::Open(dir_.File("empty"), Compression::kZstd).status();
    if (absl::IsUnimplemented(status)) GTEST_SKIP() << "built without Arrow";
    ASSERT_TRUE(status.ok()) << status;
  }

  // The content from byte `from` on, read in pieces of a size.
  absl::StatusOr<std::string> Content(const std::string& packed, size_t piece = 1 << 20,
                                      size_t from = 0) {
    const std::string path = dir_.Write("f", packed);
    absl::StatusOr<SequentialFile> file = SequentialFile::Open(path, CompressionOf(packed));
    if (!file.ok()) return file.status();
    EXPECT_EQ(file->size(), packed.size());
    if (from > 0) {
      if (const absl::Status status = file->Seek(from); !status.ok()) return status;
    }
    std::string content;
    std::vector<uint8_t> bytes(piece);
    while (true) {
      const absl::StatusOr<size_t> count = file->Read(absl::MakeSpan(bytes));
      if (!count.ok()) return count.status();
      content.append(reinterpret_cast<const char*>(bytes.data()), *count);
      EXPECT_LE(file->file_position(), packed.size());
      if (*count < piece) break;
    }
    EXPECT_TRUE(file->at_end());
    EXPECT_EQ(file->file_position(), packed.size());
    return content;
  }

  TemporaryDirectory dir_;
};

TEST(CompressionTest, IsKnownByTheFirstBytes) {
  EXPECT_EQ(CompressionOf("\x1f\x8b\x08"), Compression::kGzip);
  EXPECT_EQ(CompressionOf("\x28\xb5\x2f\xfd"), Compression::kZstd);
  EXPECT_EQ(CompressionOf("\x5e\x2a\x4d\x18"), Compression::kZstd);
  for (const char* const head : {"", "\x1f", "\x1f\x8b\x07", "\x28\xb5\x2f", "P*M", "text"})
    EXPECT_EQ(CompressionOf(head), Compression::kNone) << head;
}

TEST(CompressionTest, FilesThatAreNotCompressedAreReadAsTheyAre) {
  const TemporaryDirectory dir;
  auto file = SequentialFile::Open(dir.Write("f", "some text"), Compression::kNone);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<uint8_t> bytes(6);
  EXPECT_EQ(*file->Read(absl::MakeSpan(bytes)), 6u);
  EXPECT_FALSE(file->at_end());
  EXPECT_EQ(*file->Read(absl::MakeSpan(bytes)), 3u);
  EXPECT_TRUE(file->at_end());
  ASSERT_TRUE(file->Seek(8).ok());
  EXPECT_EQ(*file->Read(absl::MakeSpan(bytes)), 1u);
  EXPECT_EQ(bytes[0], 't');
  ASSERT_TRUE(file->Seek(100).ok());
  EXPECT_EQ(file->file_position(), 9u);
  EXPECT_EQ(SequentialFile::Open(dir.File("absent"), Compression::kGzip).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SequentialFileTest, HoldsWhatWasCompressed) {
  const std::string lines = Lines();
  for (const char* const name : {"lines.jsonl.gz", "lines.jsonl.zst"}) {
    for (const size_t piece : {size_t{1}, size_t{4099}, lines.size(), lines.size() + 1}) {
      const auto content = Content(Packed(name), piece);
      ASSERT_TRUE(content.ok()) << content.status();
      EXPECT_TRUE(*content == lines) << name << " in pieces of " << piece;
    }
    for (const size_t from : {size_t{1}, size_t{100'000}, lines.size(), lines.size() + 5}) {
      const auto content = Content(Packed(name), 1000, from);
      ASSERT_TRUE(content.ok()) << content.status();
      EXPECT_TRUE(*content == lines.substr(std::min(from, lines.size()))) << name << " " << from;
    }
  }
  EXPECT_EQ(*Content(Packed("empty.txt.gz")), "");
}

// Members of gzip, and frames of zstd, with empty and skippable ones among them.
TEST_F(SequentialFileTest, MembersAndFramesFollowOneAnother) {
  const std::string skipped("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  const std::string lines = Lines();
  for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
           {Packed("lines.jsonl.gz"), Packed("empty.txt.gz")},
           {Packed("lines.jsonl.zst"), skipped}}) {
    const std::string packed = other + one + other + other + one + one + other;
    for (const size_t piece : {lines.size(), size_t{1000}}) {
      const auto content = Content(packed, piece);
      ASSERT_TRUE(content.ok()) << content.status();
      EXPECT_TRUE(*content == lines + lines + lines);
    }
    // More than is read at a time.
    std::string many;
    size_t count = 0;
    for (; many.size() < 600'000; ++count) many += one;
    const auto content = Content(many);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(content->size(), count * lines.size());
  }
}

TEST_F(SequentialFileTest, FilesThatAreCutShortAreRefused) {
  for (const char* const name : {"lines.jsonl.gz", "lines.jsonl.zst"}) {
    const std::string packed = Packed(name);
    for (size_t size = 4; size < packed.size(); size += size < packed.size() - 20 ? 501 : 1) {
      // Behind a whole member or frame, too.
      for (const std::string& before : {std::string(), packed}) {
        const absl::Status status = Content(before + packed.substr(0, size)).status();
        ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << " " << size;
        EXPECT_THAT(status.message(),
                    HasSubstr(absl::StrCat(dir_.File("f"), ": is compressed by ")));
        EXPECT_THAT(status.message(), HasSubstr("is cut short behind "));
        EXPECT_THAT(status.message(), HasSubstr("fetch it again"));
      }
    }
  }
}

TEST_F(SequentialFileTest, DamagedFilesAreRefused) {
  const std::string lines = Lines();
  for (const char* const name : {"lines.jsonl.gz", "lines.jsonl.zst"}) {
    const std::string packed = Packed(name);
    int refused = 0;
    for (size_t i = 4; i < packed.size(); i += 37) {
      std::string bad = packed;
      bad[i] = static_cast<char>(bad[i] ^ 0x41);
      const auto content = Content(bad);
      if (content.ok()) {
        // The time of the file, for example.
        EXPECT_LT(i, 12u);
        EXPECT_TRUE(*content == lines) << name << " " << i;
        continue;
      }
      ++refused;
      EXPECT_THAT(content.status().message(),
                  AnyOf(HasSubstr("cannot be decompressed: "), HasSubstr("is cut short")));
      EXPECT_LT(content.status().message().size(), 300u);
    }
    EXPECT_GT(refused, 100) << name;
    EXPECT_THAT(Content(packed + "text").status().message(), HasSubstr("cannot be decompressed: "));
  }
}

}  // namespace
}  // namespace zeroth
