// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Megatron-LM's indexed datasets, by the layout of megatron/core/datasets/indexed_dataset.py.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/test_token_files.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kVocabSize = 50257;

// What preprocess_data.py --append-eod writes of two documents, [5, 258] and [7], with the end-of-
// text token 50256 and uint16 ids, byte by byte.
constexpr unsigned char kIndex[] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,  // magic
    1,   0,   0,   0,   0,   0,   0,   0,     // version
    8,                                        // uint16
    2,   0,   0,   0,   0,   0,   0,   0,     // sequences
    3,   0,   0,   0,   0,   0,   0,   0,     // entries of the documents' array
    3,   0,   0,   0,   2,   0,   0,   0,     // lengths
    0,   0,   0,   0,   0,   0,   0,   0,     // pointers
    6,   0,   0,   0,   0,   0,   0,   0,     //
    0,   0,   0,   0,   0,   0,   0,   0,     // documents
    1,   0,   0,   0,   0,   0,   0,   0,     //
    2,   0,   0,   0,   0,   0,   0,   0,     //
};
constexpr unsigned char kTokens[] = {5, 0, 2, 1, 0x50, 0xc4, 7, 0, 0x50, 0xc4};

template <size_t kSize>
std::string BytesOf(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

class MegatronIndexTest : public ::testing::Test {
 protected:
  std::vector<int32_t> Read(const std::string& spec) {
    DataOptions options;
    options.vocab_size = kVocabSize;
    const auto source = OpenData(spec, options);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return {};
    EXPECT_EQ((*source)->row_length(), 0);
    std::vector<int32_t> ids(static_cast<size_t>((*source)->size()));
    EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
    return ids;
  }

  // The error of a dataset of this index and tokens.
  std::string ErrorOf(const std::string& index, const std::string& tokens = BytesOf(kTokens)) {
    dir_.Write("bad.idx", index);
    const auto source = OpenMegatronFile(dir_.Write("bad.bin", tokens), kVocabSize);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument) << source.status();
    return std::string(source.status().message());
  }

  TemporaryDirectory dir_;
};

TEST_F(MegatronIndexTest, ReadsADatasetUnderEachOfItsNames) {
  dir_.Write("corpus.idx", BytesOf(kIndex));
  dir_.Write("corpus.bin", BytesOf(kTokens));
  for (const char* const name : {"corpus.bin", "corpus.idx", "corpus", "corpus.*", "", "c*.idx"}) {
    EXPECT_THAT(Read(dir_.File(name)), ElementsAre(5, 258, 50256, 7, 50256)) << name;
  }
}

// Tokens that begin as another format does are still those of the index beside them.
TEST_F(MegatronIndexTest, TheIndexDecidesTheKind) {
  dir_.Write("a.idx", MegatronIndexBytes(1, 1, {4}, {0, 1}));
  EXPECT_THAT(Read(dir_.Write("a.bin", "PAR1")), ElementsAre('P', 'A', 'R', '1'));
  dir_.Write("b.idx", "text");
  const auto refused = FindDataFiles(dir_.Write("b.bin", "PARA"));
  EXPECT_THAT(refused.status().message(), HasSubstr("b.idx that begins as Megatron-LM's index"));
}

TEST_F(MegatronIndexTest, ReadsEveryTypeOfIntegers) {
  const auto read = [this]<typename T>(uint8_t code, std::vector<T> ids) {
    dir_.Write("t.idx", MegatronIndexBytes(code, sizeof(T), {1, 2}, {0, 2}, {0, 0}));
    return Read(dir_.Write(
        "t.bin", std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T))));
  };
  EXPECT_THAT(read(1, std::vector<uint8_t>{1, 2, 200}), ElementsAre(1, 2, 200));
  EXPECT_THAT(read(2, std::vector<int8_t>{1, 2, 100}), ElementsAre(1, 2, 100));
  EXPECT_THAT(read(3, std::vector<int16_t>{1, 2, 300}), ElementsAre(1, 2, 300));
  EXPECT_THAT(read(4, std::vector<int32_t>{1, 2, 50000}), ElementsAre(1, 2, 50000));
  EXPECT_THAT(read(5, std::vector<int64_t>{1, 2, 50000}), ElementsAre(1, 2, 50000));
  EXPECT_THAT(read(8, std::vector<uint16_t>{1, 2, 50000}), ElementsAre(1, 2, 50000));
}

TEST_F(MegatronIndexTest, IdsOutsideTheVocabularyAreNamedWhenRead) {
  dir_.Write("t.idx", MegatronIndexBytes(2, 1, {2}, {0, 1}));
  const auto source = OpenMegatronFile(dir_.Write("t.bin", "\x05\xff"), 10);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<int32_t> ids(2);
  EXPECT_THAT((*source)->Read(0, absl::MakeSpan(ids)).message(), HasSubstr("token 1 is -1"));
}

// The index is read in pieces of 8192 sequences.
TEST_F(MegatronIndexTest, ReadsManySequences) {
  std::vector<int32_t> lengths(20'000, 2);
  std::vector<int64_t> documents;
  for (int64_t i = 0; i <= 20'000; ++i) documents.push_back(i);
  std::string index = MegatronIndexBytes(8, 2, lengths, documents);
  EXPECT_EQ(Read((dir_.Write("t.idx", index), dir_.Write("t.bin", std::string(80'000, '\1')))),
            std::vector<int32_t>(40'000, 257));
  index[34 + 4 * 20'000 + 8 * 15'000] ^= 1;
  EXPECT_THAT(ErrorOf(index), HasSubstr("sequence 15000 begins at byte 60001 of the .bin file, "
                                        "expected 60000"));
}

TEST_F(MegatronIndexTest, BadFilesAreRefused) {
  const std::string good = BytesOf(kIndex);
  const auto with = [&good](size_t place, char value) {
    std::string bad = good;
    bad[place] = value;
    return bad;
  };
  EXPECT_THAT(ErrorOf(with(0, 'm')), HasSubstr("bad.idx: does not begin with the magic"));
  EXPECT_THAT(ErrorOf(with(9, 2)), HasSubstr("bad.idx: version 2 at byte 9, expected 1"));
  EXPECT_THAT(ErrorOf(good.substr(0, 33)), HasSubstr("truncated: 33 bytes"));
  EXPECT_THAT(ErrorOf(with(17, 6)), HasSubstr("elements of type 6 (float64) at byte 17"));
  EXPECT_THAT(ErrorOf(with(17, 7)), HasSubstr("elements of type 7 (float32) at byte 17"));
  EXPECT_THAT(ErrorOf(with(17, 9)), HasSubstr("elements of type 9 at byte 17, expected token ids"));
  EXPECT_THAT(ErrorOf(with(17, 0)), HasSubstr("elements of type 0 at byte 17"));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)), HasSubstr("is the file truncated?"));
  EXPECT_THAT(ErrorOf(good + "x"), HasSubstr("49 bytes after the header do not match 2 sequences"));
  EXPECT_THAT(ErrorOf(with(25, '\x7f')), HasSubstr("do not match"));
  EXPECT_THAT(ErrorOf(with(33, '\x7f')), HasSubstr("do not match"));
  EXPECT_THAT(ErrorOf(with(37, '\xff')), HasSubstr("sequence 0 has -16777213 tokens"));
  EXPECT_THAT(ErrorOf(with(50, 8)), HasSubstr("sequence 1 begins at byte 8 of the .bin file"));
  EXPECT_THAT(ErrorOf(with(57, '\x80')), HasSubstr("sequence 1 begins at byte -"));
  EXPECT_THAT(ErrorOf(with(58, 1)), HasSubstr("document 0 begins at sequence 1 of 2"));
  EXPECT_THAT(ErrorOf(with(66, 3)), HasSubstr("document 1 begins at sequence 3 of 2"));
  EXPECT_THAT(ErrorOf(with(74, 1)), HasSubstr("document 2 begins at sequence 1 of 2"));
  EXPECT_THAT(ErrorOf(good, "12345678"),
              HasSubstr("bad.bin: 8 bytes, expected 10 for the 5 tokens of 2 bytes in "));
  EXPECT_THAT(ErrorOf(good, BytesOf(kTokens) + "x"), HasSubstr("11 bytes, expected 10"));
  EXPECT_THAT(ErrorOf(MegatronIndexBytes(8, 2, {}, {0}), ""), HasSubstr("holds no tokens"));
  EXPECT_THAT(ErrorOf(MegatronIndexBytes(8, 2, {5}, {})), HasSubstr("0 documents' indices"));
  EXPECT_THAT(ErrorOf(MegatronIndexBytes(8, 2, {2, 3}, {0, 2}, {0, 1})),
              HasSubstr("sequence 1 has mode 1, expected 0 (text)"));
  std::filesystem::remove(dir_.File("bad.bin"));
  EXPECT_EQ(OpenMegatronFile(dir_.File("bad.bin"), 10).status().code(),
            absl::StatusCode::kNotFound);
}

// A damaged index is an error in a directory as well, not a file to leave out.
TEST_F(MegatronIndexTest, ADamagedIndexInADirectoryIsAnError) {
  dir_.Write("a.txt", "text");
  dir_.Write("corpus.idx", BytesOf(kIndex).substr(1));
  const auto found = FindDataFiles(dir_.path());
  EXPECT_THAT(found.status().message(), HasSubstr("corpus.idx: is named .idx, but does not begin"));
}

}  // namespace
}  // namespace zeroth
