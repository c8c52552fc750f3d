// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/file_kind.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

constexpr char kExpected[] =
    "expected text, JSON lines or a JSON array of objects (each also compressed by gzip or zstd), "
    "parquet, a NumPy .npy file, an llm.c .bin shard or a Megatron-LM .bin with its .idx";

// An unsupported format that is known by its first bytes.
struct Format {
  absl::string_view magic;
  absl::string_view name;
  absl::string_view advice;  // before the path
  bool holds_data;
};

constexpr char kArrow[] =
    "write it as parquet (datasets: Dataset.to_parquet) or JSON lines (Dataset.to_json): ";
constexpr char kToUtf8[] = "convert it first: iconv -f UTF-16 -t UTF-8 ";

// `magic` may hold zero bytes, so the length is the literal's.
template <size_t kSize>
constexpr absl::string_view Bytes(const char (&magic)[kSize]) {
  return {magic, kSize - 1};
}

constexpr Format kFormats[] = {
    {Bytes("ARROW1"), "an Arrow file", kArrow, true},
    {Bytes("\xff\xff\xff\xff\x10\x00\x00\x00"), "an Arrow stream", kArrow, true},
    {Bytes("FEA1"), "a Feather file", kArrow, true},
    {Bytes("ORC"), "an ORC file", "write JSON lines of it: ", true},
    {Bytes("Obj\x01"), "an Avro file", "write JSON lines of it: ", true},
    {Bytes("\xfd\x37zXZ\x00"), "compressed by xz", "unpack it first: unxz -k ", false},
    {Bytes("\x04\x22\x4d\x18"), "compressed by lz4", "unpack it first: lz4 -d ", false},
    {Bytes("BZh"), "compressed by bzip2", "unpack it first: bunzip2 -k ", false},
    {Bytes("PK\x03\x04"), "a zip archive", "unpack it first: unzip ", false},
    {Bytes("7z\xbc\xaf\x27\x1c"), "a 7z archive", "unpack it first: 7z x ", false},
    {Bytes("%PDF-"), "a PDF document", "extract its text first: ", false},
    {Bytes("{\\rtf"), "an RTF document", "extract its text first: ", false},
    {Bytes("\xff\xfe"), "text in UTF-16", kToUtf8, false},
    {Bytes("\xfe\xff"), "text in UTF-16", kToUtf8, false},
};

// Formats whose first bytes are letters, with which a text may begin: such a file is text unless it
// has a NUL, too.
bool NeedsNul(const Format& format) {
  return format.magic == "ORC" || format.magic == "BZh" || format.magic == "FEA1";
}

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

FileKind Refused(const std::string& path, absl::string_view head, absl::string_view what,
                 absl::string_view expected, absl::string_view advice, bool holds_data) {
  constexpr size_t kShown = 24;
  return {std::nullopt, Compression::kNone,
          absl::StrCat(path, ": is ", what, " (it begins with ", Excerpt(head, kShown), "), ",
                       expected, advice.empty() ? "" : "; ", advice),
          holds_data};
}

bool NameEndsIn(const std::string& path, absl::string_view ending) {
  return absl::EndsWithIgnoreCase(path, ending);
}

// `path` as one word of a shell.
std::string ShellWord(const std::string& path) {
  const bool is_plain = std::all_of(path.begin(), path.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_./-+:@%", c);
  });
  if (is_plain) return path;
  return absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
}

// The command that writes `records`, a Python expression of the file f, as lines.
std::string PythonCommand(absl::string_view module, absl::string_view records,
                          const std::string& path) {
  std::string out = path;
  for (const char* const ending : {".csv", ".tsv", ".txt"}) {
    if (NameEndsIn(path, ending)) out.resize(path.size() - std::strlen(ending));
  }
  return absl::StrCat("python3 -c 'import ", module, "; f = open(sys.argv[1], newline=\"\"); ",
                      "[print(json.dumps(r)) for r in ", records, "]' ", ShellWord(path), " > ",
                      ShellWord(out + ".jsonl"));
}

// True for the name of a packed file of data, "part-0.jsonl.gz".
bool NamesPackedData(const std::string& path) {
  const std::string stem = path.substr(0, path.find_last_of('.'));
  static constexpr const char* kEndings[] = {".jsonl", ".ndjson", ".json",   ".txt",
                                             ".csv",   ".tsv",    ".parquet"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return NameEndsIn(stem, ending); });
}

// Splits up to two records of a CSV or TSV table into fields (RFC 4180); fewer if the head ends
// within one.
std::vector<std::vector<std::string>> FirstRecords(absl::string_view text, char separator) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record;
  std::string field;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == separator || c == '\n')) {
      record.push_back(std::exchange(field, {}));
      if (c != '\n') continue;
      records.push_back(std::exchange(record, {}));
      if (records.size() == 2) break;
      continue;
    }
    field.push_back(c);
  }
  return records;
}

// True if the first line names columns, one of which is usual for training data, and the second
// record has as many fields. Prose whose lines have as many commas is not a table.
bool IsTable(absl::string_view text, char separator) {
  static constexpr absl::string_view kColumns[] = {
      "text",   "content",      "messages", "conversations", "prompt", "completion", "instruction",
      "output", "instructions", "response", "question",      "answer", "label",      "sentence"};
  const std::vector<std::vector<std::string>> records = FirstRecords(text, separator);
  if (records.size() < 2 || records[0].size() < 2 || records[1].size() != records[0].size())
    return false;
  bool usual = false;
  for (const std::string& cell : records[0]) {
    absl::string_view name = absl::StripAsciiWhitespace(cell);
    if (absl::ConsumePrefix(&name, "\"")) absl::ConsumeSuffix(&name, "\"");
    // An unnamed first column is pandas' index.
    const bool is_word = std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
    });
    if (!is_word) return false;
    usual = usual || std::any_of(std::begin(kColumns), std::end(kColumns),
                                 [&](auto column) { return absl::EqualsIgnoreCase(name, column); });
  }
  return usual;
}

std::optional<FileKind> TableKind(const std::string& path, absl::string_view head,
                                  absl::string_view text) {
  const bool by_name = NameEndsIn(path, ".csv") || NameEndsIn(path, ".tsv");
  const bool tabs = NameEndsIn(path, ".tsv") || (!by_name && IsTable(text, '\t'));
  if (!by_name && !tabs && !IsTable(text, ',')) return std::nullopt;
  const std::string records =
      tabs ? "csv.DictReader(f, delimiter=\"\\t\")" : std::string("csv.DictReader(f)");
  return Refused(path, head,
                 tabs ? "a table of tab-separated values" : "a table of comma-separated values",
                 "expected text or JSON lines",
                 absl::StrCat("convert it (--data_columns reads columns under other names): ",
                              PythonCommand("csv, json, sys", records, path),
                              by_name ? "; if it is prose, name it .txt" : ""),
                 /*holds_data=*/true);
}

// For text that begins with a brace or bracket; empty if it is not JSON.
std::optional<FileKind> JsonKind(const std::string& path, absl::string_view head,
                                 absl::string_view text) {
  const JsonStart start = StartOfJson(text);
  if (!start.is_json) return std::nullopt;
  const absl::string_view value = start.is_whole ? text.substr(0, start.bytes) : text;
  const absl::string_view rest = text.substr(value.size());
  const absl::string_view same_line = absl::StripAsciiWhitespace(rest.substr(0, rest.find('\n')));
  const bool is_alone = absl::StripAsciiWhitespace(rest).empty();
  constexpr char kRecords[] =
      "expected records, {\"text\": ...} or {\"messages\": [...]} or another kind of docs/data.md, "
      "one "
      "on each line or all in one array";
  if (text[0] == '[') {
    // "[1] Smith" begins a text, and so may "[1, 2]" alone in a line.
    if (start.is_whole && !is_alone) return std::nullopt;
    const absl::string_view first = absl::StripLeadingAsciiWhitespace(text.substr(1));
    if (absl::StartsWith(first, "{")) {
      return FileKind{.kind = DataFileKind::kJsonArray, .refusal = ""};
    }
    return Refused(path, head, "a JSON array whose first element is not an object", kRecords, "",
                   /*holds_data=*/true);
  }
  // After a record that is followed by another in its line, reading fails with that error.
  if (!same_line.empty() && same_line[0] != '{' && same_line[0] != ',') return std::nullopt;
  // A text may begin with {}.
  if (!absl::StrContains(value, '"') && !is_alone) return std::nullopt;
  if (absl::StrContains(value, '\n')) {
    return Refused(path, head, "a JSON object of several lines", kRecords, "write its records so",
                   /*holds_data=*/false);
  }
  return FileKind{.kind = DataFileKind::kJsonLines, .refusal = ""};
}

// The name that unpacking leaves.
std::string UnpackedPath(const std::string& path) {
  for (const absl::string_view ending : {".gz", ".gzip", ".zst", ".zstd"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

}  // namespace

FileKind FileKindOf(const std::string& path, absl::string_view head) {
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(head.data()), head.size());
  if (absl::StartsWith(head, kNpyMagic)) return {.kind = DataFileKind::kNpy, .refusal = ""};
  if (HasLlmcMagic(bytes)) return {.kind = DataFileKind::kLlmcBin, .refusal = ""};
  if (HasMegatronMagic(bytes)) return {.kind = DataFileKind::kMegatron, .refusal = ""};
  const bool has_nul = absl::StrContains(head, '\0');
  if (absl::StartsWith(head, "version https://git-lfs.github.com/spec/")) {
    return {std::nullopt, Compression::kNone,
            absl::StrCat(path, ": begins with ", Excerpt(head, 60),
                         ", which Git LFS leaves in place of a file: run git lfs pull"),
            true};
  }
  // A text may begin so, but has no zero byte.
  if (absl::StartsWith(head, "PAR1") && (has_nul || NameEndsIn(path, ".parquet")))
    return {.kind = DataFileKind::kParquet, .refusal = ""};
  for (const Format& format : kFormats) {
    if (!absl::StartsWith(head, format.magic) || (NeedsNul(format) && !has_nul)) continue;
    return Refused(path, head, format.name, kExpected, absl::StrCat(format.advice, ShellWord(path)),
                   format.holds_data || NamesPackedData(path));
  }
  if (const Compression compression = CompressionOf(head); compression != Compression::kNone) {
    return Refused(path, head, absl::StrCat("compressed by ", NameOf(compression)), kExpected, "",
                   NamesPackedData(path));
  }
  if (NameEndsIn(path, ".npy")) {
    return {
        std::nullopt, Compression::kNone,
        absl::StrCat(
            path,
            ": is named .npy, but does not begin as a NumPy file does; fetch it again, or give it "
            "the name of what it is"),
        true};
  }
  if (NameEndsIn(path, ".bin")) {
    return {std::nullopt, Compression::kNone,
            absl::StrCat(path,
                         ": is named .bin, but does not begin with the magic number of an llm.c "
                         "token shard, and there is no ",
                         MegatronIndexPath(path), " that begins as Megatron-LM's index does"),
            true};
  }
  if (NameEndsIn(path, ".idx") && has_nul) {
    return {std::nullopt, Compression::kNone,
            absl::StrCat(path,
                         ": is named .idx, but does not begin with the magic \"MMIDIDX\\0\\0\" of "
                         "Megatron-LM's index"),
            true};
  }
  if (NameEndsIn(path, ".parquet")) {
    return {
        std::nullopt, Compression::kNone,
        absl::StrCat(path, ": is named .parquet, but does not begin with \"PAR1\"; it begins with ",
                     Excerpt(head, 60), "; fetch it again, or give it the name of what it is"),
        true};
  }
  if (head.empty()) {
    return {.kind = std::nullopt, .refusal = absl::StrCat(path, ": is empty, ", kExpected)};
  }
  if (has_nul) return Refused(path, head, "binary", kExpected, "", /*holds_data=*/false);
  absl::string_view text = absl::StripLeadingAsciiWhitespace(head);
  if (absl::ConsumePrefix(&text, kByteOrderMark)) text = absl::StripLeadingAsciiWhitespace(text);
  if (!text.empty() && (text[0] == '{' || text[0] == '[')) {
    if (std::optional<FileKind> kind = JsonKind(path, head, text)) return *std::move(kind);
    // If it is not JSON, reading fails and says where.
    if (NameEndsIn(path, ".json")) {
      return {.kind = text[0] == '[' ? DataFileKind::kJsonArray : DataFileKind::kJsonLines,
              .refusal = ""};
    }
  }
  if (NameEndsIn(path, ".jsonl") || NameEndsIn(path, ".ndjson"))
    return {.kind = DataFileKind::kJsonLines, .refusal = ""};
  if (std::optional<FileKind> kind = TableKind(path, head, text)) return *std::move(kind);
  return {.kind = DataFileKind::kText, .refusal = ""};
}

FileKind CompressedFileKindOf(const std::string& path, Compression compression,
                              absl::string_view head) {
  const std::string unpacked = UnpackedPath(path);
  FileKind found = FileKindOf(unpacked, head);
  found.compression = compression;
  const std::string is_compressed = absl::StrCat(path, ": is compressed by ", NameOf(compression));
  const std::string unpack =
      absl::StrCat(compression == Compression::kGzip ? "gunzip -k " : "zstd -d ", ShellWord(path));
  if (!found.kind) {
    found.refusal = absl::StrCat(is_compressed, ", and its content is not read. After ", unpack,
                                 ": ", found.refusal);
  } else if (!IsText(*found.kind) || *found.kind == DataFileKind::kParquet) {
    found = {std::nullopt, compression,
             absl::StrCat(is_compressed,
                          ", which only text, JSON lines and JSON arrays may be; "
                          "unpack it: ",
                          unpack),
             /*holds_data=*/true};
  }
  return found;
}

FileKind UnreadableFileKind(const std::string& path, absl::string_view reason) {
  return {std::nullopt, Compression::kNone, std::string(reason), NamesPackedData(path)};
}

}  // namespace zeroth
