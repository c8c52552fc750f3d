// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Opens files that users give by mistake, and expects the whole message of each: what is wrong,
// where, what was expected, and what to do.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/parquet_reader.h"
#include "zeroth/data/test_token_files.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {
namespace {

std::string LittleEndian(uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

uint32_t Crc32(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

// A file of gzip with one block that is stored (RFC 1952 and 1951).
std::string Gzip(const std::string& content) {
  const auto size = static_cast<uint32_t>(content.size());
  return absl::StrCat(std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11), LittleEndian(size, 2),
                      LittleEndian(~size, 2), content, LittleEndian(Crc32(content)),
                      LittleEndian(size));
}

// A frame of zstd with one raw block (RFC 8878), of content shorter than 256 bytes, and with
// `checksum` unless it is empty.
std::string Zstd(const std::string& content, const std::string& checksum = "") {
  const auto size = static_cast<uint32_t>(content.size());
  return absl::StrCat("\x28\xb5\x2f\xfd", checksum.empty() ? "\x20" : "\x24", LittleEndian(size, 1),
                      LittleEndian(size << 3 | 1, 3), content, checksum);
}

std::string Changed(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
  return bytes;
}

struct Case {
  std::string name;     // of the file that is written, or a path in tests/testdata
  std::string content;  // "": `name` is not written
  // DIR/ is the directory of the file. A library says what * stands for.
  std::string message;
  std::string columns = "";
};

class MalformedInputsTest : public testing::Test {
 protected:
  std::string MessageOf(const std::string& spec, const std::string& columns = "") {
    const ByteTokenizer tokenizer;
    DataOptions options;
    options.tokenizer = &tokenizer;
    options.vocab_size = 257;
    options.seq_len = 64;
    options.chat_template = "auto";
    options.columns = columns;
    const auto source = OpenData(spec, options);
    if (source.ok()) return "OK";
    return absl::StrReplaceAll(source.status().message(), {{dir_.path() + "/", "DIR/"}});
  }

  void Check(const std::vector<Case>& cases) {
    for (const Case& each : cases) {
      SCOPED_TRACE(each.name);
      const bool is_written = !each.content.empty();
      const std::string path = is_written ? dir_.Write(each.name, each.content)
                               : absl::StartsWith(each.name, "tests/") ? each.name
                                                                       : dir_.File(each.name);
      const std::string message = MessageOf(path, each.columns);
      const size_t star = each.message.find('*');
      if (star == std::string::npos) {
        EXPECT_EQ(message, each.message);
      } else {
        EXPECT_TRUE(absl::StartsWith(message, each.message.substr(0, star))) << message;
        EXPECT_TRUE(absl::EndsWith(message, each.message.substr(star + 1))) << message;
      }
      EXPECT_LT(message.size(), 700u);
      EXPECT_FALSE(absl::StrContains(absl::StrReplaceAll(message, {{"...", ""}}), ".;")) << message;
      if (is_written) std::filesystem::remove(path);
    }
  }

  void SkipWithoutArrow() {
    const std::string path = "tests/testdata/parquet/text.parquet";
    if (absl::IsUnimplemented(ParquetReader::Open(path).status()))
      GTEST_SKIP() << "built without Arrow";
  }

  TemporaryDirectory dir_;
};

TEST_F(MalformedInputsTest, Text) {
  std::filesystem::create_directory(dir_.File("nothing"));
  dir_.Write("empty.txt", "");
  Check({
      {"absent.txt", "", "cannot open DIR/absent.txt: No such file or directory"},
      {"*.jsonl", "", "DIR/*.jsonl: matches no file"},
      {"nothing", "",
       "DIR/nothing: no files, expected text, JSON lines, parquet, a NumPy .npy file, an "
       "llm.c .bin shard or a Megatron-LM .bin with its .idx"},
      {"empty.txt", "",
       "DIR/empty.txt: is empty, expected text, JSON lines or a JSON array of objects (each also "
       "compressed by gzip or zstd), parquet, a NumPy .npy file, an llm.c .bin shard or a "
       "Megatron-LM .bin with its .idx"},
      {"binary.txt", std::string("a\0b", 3),
       "DIR/binary.txt: is binary (it begins with \"a\\x00\\x62\"), expected text, JSON lines or a "
       "JSON array of objects (each also compressed by gzip or zstd), parquet, a NumPy .npy file, "
       "an llm.c .bin shard or a Megatron-LM .bin with its .idx"},
      {"utf16.txt", std::string("\xff\xfe\x61\0", 4),
       "DIR/utf16.txt: is text in UTF-16 (it begins with \"\\xff\\xfe\\x61\\x00\"), expected text, "
       "JSON lines or a JSON array of objects (each also compressed by gzip or zstd), parquet, a "
       "NumPy .npy file, an llm.c .bin shard or a Megatron-LM .bin with its .idx; convert it "
       "first: iconv -f UTF-16 -t UTF-8 DIR/utf16.txt"},
      {"table.csv", "text,id\na,1\n",
       "DIR/table.csv: is a table of comma-separated values (it begins with \"text,id\\na,1\\n\"), "
       "expected text or JSON lines; convert it (--data_columns reads columns under other names): "
       "python3 -c 'import csv, json, sys; f = open(sys.argv[1], newline=\"\"); "
       "[print(json.dumps(r)) for r in csv.DictReader(f)]' DIR/table.csv > DIR/table.jsonl; if it "
       "is prose, name it .txt"},
      {"strings.json", "[\"a\", \"b\"]",
       "DIR/strings.json: is a JSON array whose first element is not an object (it begins with "
       "\"[\\\"a\\\", \\\"b\\\"]\"), expected records, {\"text\": ...} or {\"messages\": [...]} or "
       "another kind of docs/data.md, one on each line or all in one array"},
      {"pretty.jsonl", "{\n  \"data\": []\n}\n",
       "DIR/pretty.jsonl: is a JSON object of several lines (it begins with \"{\\n  \\\"data\\\": "
       "[]\\n}\\n\"), expected records, {\"text\": ...} or {\"messages\": [...]} or another kind "
       "of docs/data.md, one on each line or all in one array; write its records so"},
      {"cut.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b",
       "DIR/cut.jsonl line 2: bad JSON (column 11): invalid string: missing closing quote, near "
       "\"{\\\"text\\\": \\\"b\"; expected JSON in UTF-8: fix or remove the record, or fetch the "
       "file again if it is cut short"},
      {"cut.json", "[{\"text\": \"a\"}, {\"text\": ",
       "DIR/cut.json record 2: bad JSON (column 9): unexpected end of input; expected '[', '{', or "
       "a literal, near \"{\\\"text\\\": \"; expected JSON in UTF-8: fix or remove the record, or "
       "fetch the file again if it is cut short"},
      {"latin.jsonl", "{\"text\": \"a\"}\n{\"text\": \"caf\xe9\"}\n",
       "DIR/latin.jsonl line 2: bad JSON (column 15): invalid string: ill-formed UTF-8 byte, near "
       "\"{\\\"text\\\": \\\"caf\\xe9\\\"}\"; expected JSON in UTF-8: fix or remove the record, "
       "or fetch the file again if it is cut short"},
      {"number.jsonl", "{\"text\": 7}\n",
       "DIR/number.jsonl line 1: \"text\" is number, expected a string, found 7; "
       "--data_columns=text=COLUMN reads another column"},
      {"nested.jsonl", "{\"text\": {\"en\": \"a\"}}\n",
       "DIR/nested.jsonl line 1: \"text\" is object, expected a string, found {\"en\":\"a\"}; "
       "--data_columns=text=COLUMN reads another column"},
      {"unknown.jsonl", "{\"body\": \"a\"}\n",
       "DIR/unknown.jsonl line 1: expected one of {\"text\": \"...\"}, {\"messages\": [{\"role\": "
       "\"user\", \"content\": \"...\"}, ...]}, {\"conversations\": [{\"from\": \"human\", "
       "\"value\": \"...\"}, ...]} (ShareGPT), {\"instruction\": \"...\", \"input\": \"...\", "
       "\"output\": \"...\"} (Alpaca), {\"prompt\": \"...\", \"completion\": \"...\"} and "
       "{\"prompt\": \"...\", \"chosen\": \"...\", \"rejected\": \"...\"}, found "
       "{\"body\":\"a\"}; --data_columns=NAME=COLUMN reads a key under one of these names"},
      {"mixed.jsonl", "{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n",
       "DIR/mixed.jsonl line 2: is a record of the kind prompt/completion, expected text; the "
       "trainer's --data reads each kind from separate files: "
       "{\"prompt\":\"a\",\"completion\":\"b\"}"},
      {"misspelt.jsonl", "{\"body\": \"a\"}\n",
       "DIR/misspelt.jsonl line 1: --data_columns=text=boddy: no record has \"boddy\"; the first "
       "has \"body\"",
       "text=boddy"},
      {"twice.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n",
       "DIR/twice.jsonl line 1: bad JSON (column 20): the key \"text\" appears twice in one "
       "object, near \"{\\\"text\\\": \\\"a\\\", \\\"text\\\": \\\"b\\\"}\"; expected JSON in "
       "UTF-8: fix or remove the record, or fetch the file again if it is cut short"},
  });
  const std::string text = dir_.Write("a.jsonl", "{\"text\": \"a\"}\n");
  const std::string prompt = dir_.Write("b.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  const std::string tokens = dir_.Write("c.npy", NpyBytes<uint16_t>("<u2", "(1,)", {1}));
  EXPECT_EQ(
      MessageOf(absl::StrCat(text, ",", prompt)),
      "text and other records cannot be mixed: DIR/b.jsonl holds prompt/completion records, "
      "DIR/a.jsonl text; give each a weight, as in a.jsonl:1,b.jsonl:1, to mix their sequences");
  EXPECT_EQ(MessageOf(absl::StrCat(text, ",", tokens)),
            "text and token files cannot be mixed: DIR/a.jsonl is text, DIR/c.npy holds tokens; "
            "give each a weight, as in a.txt:1,b.npy:1, to mix their sequences");
}

TEST_F(MalformedInputsTest, Parquet) {
  SkipWithoutArrow();
  if (IsSkipped()) return;
  const std::string good = ReadTestFile("tests/testdata/parquet/text.parquet");
  std::string page = good;
  page.replace(4, 8, 8, '\xff');
  std::filesystem::create_directory(dir_.File("shards.parquet"));
  dir_.Write("empty.parquet", "");
  Check({
      {"empty.parquet", "",
       "DIR/empty.parquet: is named .parquet, but does not begin with \"PAR1\"; it begins with "
       "\"\"; fetch it again, or give it the name of what it is"},
      {"shards.parquet", "",
       "DIR/shards.parquet: no files, expected text, JSON lines, parquet, a NumPy .npy "
       "file, an llm.c .bin shard or a Megatron-LM .bin with its .idx"},
      {"magic.parquet", std::string("PAR2, not 1"),
       "DIR/magic.parquet: is named .parquet, but does not begin with \"PAR1\"; it begins with "
       "\"PAR2, not 1\"; fetch it again, or give it the name of what it is"},
      {"pointer.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "DIR/pointer.parquet: begins with "
       "\"version https://git-lfs.github.com/spec/v1\\noid sha256:0\\n\", which Git LFS leaves in "
       "place of a file: run git lfs pull"},
      {"page.html.parquet", "<!DOCTYPE html><html>",
       "DIR/page.html.parquet: is named .parquet, but does not begin with \"PAR1\"; it begins with "
       "\"<!DOCTYPE html><html>\"; fetch it again, or give it the name of what it is"},
      {"head.parquet", good.substr(0, 4),
       "DIR/head.parquet: this parquet file cannot be read: *; is the file damaged? Fetch it "
       "again"},
      {"half.parquet", good.substr(0, good.size() / 2),
       "DIR/half.parquet: this parquet file cannot be read: *; is the file damaged? Fetch it "
       "again"},
      {"last.parquet", good.substr(0, good.size() - 1),
       "DIR/last.parquet: this parquet file cannot be read: *; is the file damaged? Fetch it "
       "again"},
      {"footer.parquet", good.substr(0, good.size() - 8) + "\xff\xff\xff\x7fPAR1",
       "DIR/footer.parquet: this parquet file cannot be read: *; is the file damaged? Fetch it "
       "again"},
      {"page.parquet", page,
       "DIR/page.parquet: row 1 of this parquet file cannot be read: *; is the file damaged? Fetch "
       "it again"},
      {"tests/testdata/parquet/bytes.parquet", "",
       "tests/testdata/parquet/bytes.parquet row 2: \"text\" is binary, expected a string in "
       "UTF-8; --data_columns=text=COLUMN reads another column"},
      {"tests/testdata/parquet/columns.parquet", "",
       "tests/testdata/parquet/columns.parquet row 1: expected one of {\"text\": \"...\"}, "
       "{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, ...]}, "
       "{\"conversations\": [{\"from\": \"human\", \"value\": \"...\"}, ...]} (ShareGPT), "
       "{\"instruction\": \"...\", \"input\": \"...\", \"output\": \"...\"} (Alpaca), "
       "{\"prompt\": \"...\", \"completion\": \"...\"} and {\"prompt\": \"...\", \"chosen\": "
       "\"...\", \"rejected\": \"...\"}, found "
       "{\"question\":\"a\",\"answer\":\"x\",\"date\":{\"timestamp[ms]\":\"1970-01-01 "
       "00:00:00.000\"}}; --data_columns=NAME=COLUMN reads a key under one of these names"},
      {"tests/testdata/parquet/columns.parquet", "",
       "tests/testdata/parquet/columns.parquet row 1: \"text\" is object, expected a string, found "
       "{\"timestamp[ms]\":\"1970-01-01 00:00:00.000\"}; --data_columns=text=COLUMN reads another "
       "column",
       "text=date"},
      {"tests/testdata/parquet/columns.parquet", "",
       "tests/testdata/parquet/columns.parquet row 1: --data_columns=text=questions: no record has "
       "\"questions\"; the first has \"question\", \"answer\", \"date\"",
       "text=questions"},
      {"tests/testdata/parquet/map.parquet", "",
       "tests/testdata/parquet/map.parquet row 1: \"text\" is object, expected a string, found "
       "{\"map<*; --data_columns=text=COLUMN reads another column",
       "text=messages"},
  });
  EXPECT_EQ(MessageOf("tests/testdata/parquet/text.parquet,tests/testdata/parquet/prompts.parquet"),
            "text and other records cannot be mixed: tests/testdata/parquet/prompts.parquet holds "
            "prompt/completion records, tests/testdata/parquet/text.parquet text; give each a "
            "weight, as in a.jsonl:1,b.jsonl:1, to mix their sequences");
}

TEST_F(MalformedInputsTest, Compressed) {
  SkipWithoutArrow();
  if (IsSkipped()) return;
  const std::string records = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  const std::string gzip = Gzip(records);
  const std::string zstd = Zstd(records);
  dir_.Write("good.jsonl.gz", gzip);
  dir_.Write("good.jsonl.zst", zstd);
  EXPECT_EQ(MessageOf(dir_.File("good.jsonl.gz")), "OK");
  EXPECT_EQ(MessageOf(dir_.File("good.jsonl.zst")), "OK");
  Check({
      {"head.jsonl.gz", gzip.substr(0, 3),
       "DIR/head.jsonl.gz: is compressed by gzip, but is cut short behind 0 bytes of its content; "
       "fetch it again (gzip -t tests a file)"},
      {"cut.jsonl.gz", gzip.substr(0, 30),
       "DIR/cut.jsonl.gz: is compressed by gzip, but is cut short behind 15 bytes of its content; "
       "fetch it again (gzip -t tests a file)"},
      {"last.jsonl.gz", gzip.substr(0, gzip.size() - 1),
       "DIR/last.jsonl.gz: is compressed by gzip, but is cut short behind 28 bytes of its content; "
       "fetch it again (gzip -t tests a file)"},
      {"block.jsonl.gz", Changed(gzip, 13),
       "DIR/block.jsonl.gz: is compressed by gzip, but cannot be decompressed: *, behind 0 bytes "
       "of its content; fetch it again (gzip -t tests a file)"},
      {"crc.jsonl.gz", Changed(gzip, gzip.size() - 8),
       "DIR/crc.jsonl.gz: is compressed by gzip, but cannot be decompressed: *, behind 0 bytes of "
       "its content; fetch it again (gzip -t tests a file)"},
      {"size.jsonl.gz", Changed(gzip, gzip.size() - 4),
       "DIR/size.jsonl.gz: is compressed by gzip, but cannot be decompressed: *, behind 0 bytes of "
       "its content; fetch it again (gzip -t tests a file)"},
      {"more.jsonl.gz", gzip + "more",
       "DIR/more.jsonl.gz: is compressed by gzip, but cannot be decompressed: *, behind 28 bytes "
       "of its content; fetch it again (gzip -t tests a file)"},
      {"empty.txt.gz", Gzip(""),
       "DIR/empty.txt.gz: is compressed by gzip, and its content is not read. After gunzip -k "
       "DIR/empty.txt.gz: DIR/empty.txt: is empty, expected text, JSON lines or a JSON array of "
       "objects (each also compressed by gzip or zstd), parquet, a NumPy .npy file, an llm.c .bin "
       "shard or a Megatron-LM .bin with its .idx"},
      {"twice.jsonl.gz", Gzip(gzip),
       "DIR/twice.jsonl.gz: is compressed by gzip, and its content is not read. After gunzip -k "
       "DIR/twice.jsonl.gz: DIR/twice.jsonl: is compressed by gzip (it begins with "
       "\"\\x1f\\x8b\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x03\\x01\\x1c\\x00\\xe3\\xff{\\\"text\\\":"
       " ...\"), expected text, JSON lines or a JSON array of objects (each also compressed by "
       "gzip or zstd), parquet, a NumPy .npy file, an llm.c .bin shard or a Megatron-LM .bin with "
       "its .idx"},
      {"table.csv.gz", Gzip("text,id\na,1\n"),
       "DIR/table.csv.gz: is compressed by gzip, and its content is not read. After gunzip -k "
       "DIR/table.csv.gz: DIR/table.csv: is a table of comma-separated values (it begins with "
       "\"text,id\\na,1\\n\"), expected text or JSON lines; convert it (--data_columns reads "
       "columns under other names): python3 -c 'import csv, json, sys; f = open(sys.argv[1], "
       "newline=\"\"); [print(json.dumps(r)) for r in csv.DictReader(f)]' DIR/table.csv > "
       "DIR/table.jsonl; if it is prose, name it .txt"},
      {"a.parquet.gz", Gzip(std::string("PAR1\0", 5)),
       "DIR/a.parquet.gz: is compressed by gzip, which only text, JSON lines and JSON arrays may "
       "be; unpack it: gunzip -k DIR/a.parquet.gz"},
      {"latin.jsonl.gz", Gzip("{\"text\": \"caf\xe9\"}\n"),
       "DIR/latin.jsonl.gz line 1: bad JSON (column 15): invalid string: ill-formed UTF-8 byte, "
       "near \"{\\\"text\\\": \\\"caf\\xe9\\\"}\"; expected JSON in UTF-8: fix or remove the "
       "record, or fetch the file again if it is cut short"},
      {"record.jsonl.gz", Gzip("{\"text\": \"a\"}\n{\"text\": \"b"),
       "DIR/record.jsonl.gz line 2: bad JSON (column 11): invalid string: missing closing quote, "
       "near \"{\\\"text\\\": \\\"b\"; expected JSON in UTF-8: fix or remove the record, or fetch "
       "the file again if it is cut short"},
      {"kinds.jsonl.gz", Gzip("{\"text\": \"a\"}\n{\"messages\": []}\n"),
       "DIR/kinds.jsonl.gz line 2: is a record of the kind messages, expected text; the trainer's "
       "--data reads each kind from separate files: {\"messages\":[]}"},
      {"head.jsonl.zst", zstd.substr(0, 4),
       "DIR/head.jsonl.zst: is compressed by zstd, but is cut short behind 0 bytes of its content; "
       "fetch it again (zstd -t tests a file)"},
      {"cut.jsonl.zst", zstd.substr(0, 20),
       "DIR/cut.jsonl.zst: is compressed by zstd, but is cut short behind 11 bytes of its content; "
       "fetch it again (zstd -t tests a file)"},
      {"last.jsonl.zst", zstd.substr(0, zstd.size() - 1),
       "DIR/last.jsonl.zst: is compressed by zstd, but is cut short behind 27 bytes of its "
       "content; fetch it again (zstd -t tests a file)"},
      {"block.jsonl.zst", Changed(zstd, 6),
       "DIR/block.jsonl.zst: is compressed by zstd, but cannot be decompressed: *, behind 0 bytes "
       "of its content; fetch it again (zstd -t tests a file)"},
      {"checksum.jsonl.zst", Zstd(records, "\1\2\3\4"),
       "DIR/checksum.jsonl.zst: is compressed by zstd, but cannot be decompressed: *, behind 0 "
       "bytes of its content; fetch it again (zstd -t tests a file)"},
      {"more.jsonl.zst", zstd + "more",
       "DIR/more.jsonl.zst: is compressed by zstd, but cannot be decompressed: *, behind 28 bytes "
       "of its content; fetch it again (zstd -t tests a file)"},
      {"empty.txt.zst", Zstd(""),
       "DIR/empty.txt.zst: is compressed by zstd, and its content is not read. After zstd -d "
       "DIR/empty.txt.zst: DIR/empty.txt: is empty, expected text, JSON lines or a JSON array of "
       "objects (each also compressed by gzip or zstd), parquet, a NumPy .npy file, an llm.c .bin "
       "shard or a Megatron-LM .bin with its .idx"},
      {"both.jsonl.zst", Zstd(gzip),
       "DIR/both.jsonl.zst: is compressed by zstd, and its content is not read. After zstd -d "
       "DIR/both.jsonl.zst: DIR/both.jsonl: is compressed by gzip (it begins with "
       "\"\\x1f\\x8b\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x03\\x01\\x1c\\x00\\xe3\\xff{\\\"text\\\":"
       " ...\"), expected text, JSON lines or a JSON array of objects (each also compressed by "
       "gzip or zstd), parquet, a NumPy .npy file, an llm.c .bin shard or a Megatron-LM .bin with "
       "its .idx"},
      {"a.npy.zst", Zstd(NpyBytes<uint16_t>("<u2", "(1,)", {1})),
       "DIR/a.npy.zst: is compressed by zstd, which only text, JSON lines and JSON arrays may be; "
       "unpack it: zstd -d DIR/a.npy.zst"},
      {"nested.jsonl.zst", Zstd("{\"text\": [\"a\"]}\n"),
       "DIR/nested.jsonl.zst line 1: \"text\" is array, expected a string, found [\"a\"]; "
       "--data_columns=text=COLUMN reads another column"},
      {"a.jsonl.xz", std::string("\xfd\x37zXZ\0", 6),
       "DIR/a.jsonl.xz: is compressed by xz (it begins with \"\\xfd\\x37zXZ\\x00\"), expected "
       "text, JSON lines or a JSON array of objects (each also compressed by gzip or zstd), "
       "parquet, a NumPy .npy file, an llm.c .bin shard or a Megatron-LM .bin with its .idx; "
       "unpack it first: unxz -k DIR/a.jsonl.xz"},
  });
}

}  // namespace
}  // namespace zeroth
