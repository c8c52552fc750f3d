// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/documents.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_file.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {
namespace {

// Bytes of a file of records that are read at a time.
constexpr size_t kReadBytes = size_t{1} << 20;

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// Returns the last place after `least` where `text` may be cut (see Tokenizer::CutsAtSpaces); 0 if
// there is none.
size_t LastCut(absl::string_view text, size_t least) {
  for (size_t end = text.size(); end > least && end > 1;) {
    --end;
    if (text[end] == ' ' && absl::ascii_isgraph(static_cast<unsigned char>(text[end - 1]))) {
      return end;
    }
  }
  return 0;
}

// The parser's errors say what is wrong where, but not what to do about a file of records.
absl::StatusOr<nlohmann::ordered_json> ParseRecord(absl::string_view text,
                                                   absl::string_view where) {
  absl::StatusOr<nlohmann::ordered_json> json = ParseOrderedJson(text, where);
  if (json.ok()) return json;
  return InvalidArgument(json.status().message(),
                         "; expected JSON in UTF-8: fix or remove the record, or fetch the file "
                         "again if it is cut short");
}

// Refuses a record of text with a key that would change what is learned from it.
absl::Status CheckTextKeys(const nlohmann::ordered_json& json) {
  for (const char* const key : {"weight", "loss", "trainable"}) {
    const auto found = json.find(key);
    const bool is_plain = found == json.end() || found->is_null() || *found == true ||
                          (found->is_number() && *found == 1);
    if (is_plain) continue;
    return InvalidArgument("has \"", key, "\": ", Shorten(found->dump(-1, ' ', true)),
                           ", but all text is learned alike; leave the record or the key out");
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeAs(const std::vector<DataFile>& files,
                                                            const Tokenizer& tokenizer,
                                                            ColumnNames& columns) {
  std::vector<T> ids;
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader,
                            IsRecords(file.kind)
                                ? DocumentReader::OpenRecords(file, &columns)
                                : DocumentReader::Open(file, tokenizer.CutsAtSpaces()));
    for (TextPart part;;) {
      ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.Next(&part));
      if (!more) break;
      ZEROTH_RETURN_IF_ERROR_WITH(EncodePart(tokenizer, part,
                                             [&ids](absl::Span<const int32_t> piece) {
                                               for (const int32_t id : piece)
                                                 ids.push_back(static_cast<T>(id));
                                             }),
                                  file.path);
    }
  }
  ZEROTH_RETURN_IF_ERROR(columns.CheckFound(DescribeFiles(files)));
  ids.shrink_to_fit();
  TokenSource::Facts facts;
  facts.description = DescribeFiles(files);
  return std::make_shared<const TokensInMemory<T>>(std::move(ids), std::move(facts));
}

}  // namespace

absl::StatusOr<DocumentReader> DocumentReader::Open(const DataFile& file, bool cuts_at_spaces,
                                                    size_t part_bytes) {
  DocumentReader reader;
  ZEROTH_ASSIGN_OR_RETURN(reader.file_, SequentialFile::Open(file.path, file.compression));
  reader.kind_ = file.kind;
  reader.is_compressed_ = file.compression != Compression::kNone;
  if (file.kind == DataFileKind::kParquet) {
    ZEROTH_ASSIGN_OR_RETURN(reader.parquet_, ParquetReader::Open(file.path));
  }
  reader.cuts_at_spaces_ = cuts_at_spaces;
  reader.part_bytes_ = IsRecords(file.kind) ? kReadBytes : part_bytes;
  return reader;
}

absl::StatusOr<DocumentReader> DocumentReader::OpenRecords(const DataFile& file,
                                                           ColumnNames* columns) {
  ZEROTH_CHECK(IsRecords(file.kind));
  ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader, Open(file, /*cuts_at_spaces=*/false));
  reader.columns_ = columns;
  return reader;
}

absl::Status DocumentReader::Seek(size_t position, int64_t lines, bool inside) {
  held_.clear();
  held_begin_ = 0;
  position_ = is_compressed_ ? position : std::min(position, file_.size());
  lines_ = lines;
  inside_ = inside;
  done_ = !IsRecords(kind_) && !inside && position > 0;
  return parquet_ ? parquet_->Seek(lines) : file_.Seek(position_);
}

size_t DocumentReader::file_position() const {
  return is_compressed_ ? file_.file_position() : position_;
}

absl::Status DocumentReader::ReadMore() {
  held_.erase(0, held_begin_);
  held_begin_ = 0;
  const size_t before = held_.size();
  const size_t wanted =
      is_compressed_ ? part_bytes_ : std::min(part_bytes_, file_.size() - file_.file_position());
  held_.resize(before + wanted);
  ZEROTH_ASSIGN_OR_RETURN(
      const size_t count,
      file_.Read(absl::MakeSpan(reinterpret_cast<uint8_t*>(held_.data()) + before, wanted)));
  held_.resize(before + count);
  return absl::OkStatus();
}

absl::StatusOr<bool> DocumentReader::NextText(TextPart* part) {
  if (done_) return false;
  size_t end = 0;
  while (end == 0) {
    const size_t least = held_.size() - held_begin_;
    ZEROTH_RETURN_IF_ERROR(ReadMore());
    if (file_.at_end()) {
      end = held_.size();
      done_ = true;
      break;
    }
    if (cuts_at_spaces_) end = LastCut(held_, least);
  }
  part->text = held_.substr(0, end);
  part->begins = !inside_;
  part->ends = done_;
  inside_ = true;
  held_.erase(0, end);
  position_ += end;
  return true;
}

void DocumentReader::Pass(size_t bytes) {
  held_begin_ += bytes;
  position_ += bytes;
}

absl::StatusOr<char> DocumentReader::SkipBlanks() {
  while (true) {
    for (; held_begin_ < held_.size(); Pass(1)) {
      const char c = held_[held_begin_];
      if (!absl::ascii_isspace(static_cast<unsigned char>(c))) return c;
    }
    if (file_.at_end()) return '\0';
    ZEROTH_RETURN_IF_ERROR(ReadMore());
  }
}

absl::StatusOr<bool> DocumentReader::NextElement(JsonRecord* record) {
  const auto wrong = [this](const auto&... what) {
    return InvalidArgument(file_.path(), ": ", what..., ", found ",
                           held_begin_ == held_.size() ? "the end of the file"
                                                       : Excerpt(absl::string_view(held_).substr(
                                                             held_begin_, kExcerptBytes)));
  };
  ZEROTH_ASSIGN_OR_RETURN(char next, SkipBlanks());
  if (done_) {
    // Checks the position instead of `next`, which is also 0 for a zero byte in the file.
    if (held_begin_ < held_.size()) return wrong("expected nothing behind ]");
    return false;
  }
  if (lines_ == 0) {
    if (absl::StartsWith(absl::string_view(held_).substr(held_begin_), kByteOrderMark)) {
      Pass(kByteOrderMark.size());
      ZEROTH_ASSIGN_OR_RETURN(next, SkipBlanks());
    }
    if (next != '[') return wrong("expected a JSON array");
    Pass(1);
    ZEROTH_ASSIGN_OR_RETURN(next, SkipBlanks());
  } else if (next == ',') {
    Pass(1);
    ZEROTH_ASSIGN_OR_RETURN(next, SkipBlanks());
    if (next == ']') return wrong("expected a record behind the comma after record ", lines_);
  } else if (next != ']') {
    return wrong("expected a comma or ] behind record ", lines_);
  }
  if (next == ']') {
    Pass(1);
    done_ = true;
    return NextElement(record);
  }
  if (next != '{') return wrong("record ", lines_ + 1, ": expected an object");
  // The object ends with the brace of its depth.
  size_t length = 0;
  int64_t depth = 0;
  bool quoted = false;
  bool escaped = false;
  while (length == 0 || depth > 0) {
    if (held_begin_ + length == held_.size()) {
      if (file_.at_end() || length > JsonLimits{}.max_bytes) break;
      ZEROTH_RETURN_IF_ERROR(ReadMore());
      continue;
    }
    const char c = held_[held_begin_ + length++];
    if (quoted) {
      if (c == '"' && !escaped) quoted = false;
      escaped = c == '\\' && !escaped;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  record->where = absl::StrCat(file_.path(), " record ", ++lines_);
  const absl::string_view text = absl::string_view(held_).substr(held_begin_, length);
  Pass(length);
  ZEROTH_ASSIGN_OR_RETURN(record->json, ParseRecord(text, record->where));
  return true;
}

absl::StatusOr<bool> DocumentReader::NextRecord(JsonRecord* record) {
  ZEROTH_ASSIGN_OR_RETURN(const bool more, parquet_                            ? NextRow(record)
                                           : kind_ == DataFileKind::kJsonArray ? NextElement(record)
                                                                               : NextLine(record));
  if (more && columns_ != nullptr) columns_->Apply(record->json);
  return more;
}

absl::StatusOr<bool> DocumentReader::NextRow(JsonRecord* record) {
  ZEROTH_ASSIGN_OR_RETURN(const bool more, parquet_->Next(&record->json));
  if (!more) return false;
  record->where = absl::StrCat(file_.path(), " row ", ++lines_);
  // Rows have no byte position, so estimate it from the share of rows read. A damaged file may
  // declare fewer rows than it has.
  const double share =
      static_cast<double>(lines_) / static_cast<double>(std::max(parquet_->rows(), lines_));
  position_ = static_cast<size_t>(static_cast<double>(file_.size()) * share);
  return true;
}

absl::StatusOr<bool> DocumentReader::NextLine(JsonRecord* record) {
  while (true) {
    size_t searched = held_begin_;
    size_t end = held_.find('\n', searched);
    // Stops reading a line beyond max_bytes: ParseOrderedJson would refuse it.
    while (end == std::string::npos && !file_.at_end() &&
           held_.size() - held_begin_ <= JsonLimits{}.max_bytes) {
      searched = held_.size() - held_begin_;
      ZEROTH_RETURN_IF_ERROR(ReadMore());
      end = held_.find('\n', searched);
    }
    if (end == std::string::npos && held_begin_ == held_.size()) return false;
    const size_t stop = std::min(end, held_.size());
    const absl::string_view line = absl::string_view(held_).substr(held_begin_, stop - held_begin_);
    const size_t taken = line.size() + (end == std::string::npos ? 0 : 1);
    ++lines_;
    Pass(taken);
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    record->where = absl::StrCat(file_.path(), " line ", lines_);
    ZEROTH_ASSIGN_OR_RETURN(record->json, ParseRecord(line, record->where));
    return true;
  }
}

absl::StatusOr<bool> DocumentReader::Next(TextPart* part) {
  if (!IsRecords(kind_)) return NextText(part);
  JsonRecord record;
  ZEROTH_ASSIGN_OR_RETURN(const bool more, NextRecord(&record));
  if (!more) return false;
  ZEROTH_RETURN_IF_ERROR(CheckKind(record, RecordKind::kText));
  const nlohmann::ordered_json& json = record.json;
  const auto text = json.find("text");
  if (!text->is_string()) {
    return InvalidArgument(
        record.where, ": \"text\" is ", text->type_name(), ", expected a string",
        text->is_binary() ? " in UTF-8" : absl::StrCat(", found ", QuoteJson(*text)),
        "; --data_columns=text=COLUMN reads another column");
  }
  ZEROTH_RETURN_IF_ERROR_WITH(CheckTextKeys(json), record.where);
  *part = {text->get<std::string>(), true, true};
  return true;
}

absl::StatusOr<std::optional<RecordKind>> KindOfFirstRecord(const DataFile& file,
                                                            ColumnNames columns,
                                                            bool prefers_pairs) {
  if (!IsRecords(file.kind)) return RecordKind::kText;
  ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader, DocumentReader::OpenRecords(file, &columns));
  JsonRecord record;
  ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.NextRecord(&record));
  if (!more) return std::nullopt;
  const absl::StatusOr<RecordKind> kind = KindOfRecord(record, prefers_pairs);
  // A misspelt column is the likely cause.
  if (!kind.ok()) ZEROTH_RETURN_IF_ERROR(columns.CheckFound(record.where));
  ZEROTH_RETURN_IF_ERROR(kind.status());
  return *kind;
}

absl::Status EncodePart(const Tokenizer& tokenizer, const TextPart& part, Tokenizer::Sink sink) {
  if (part.begins && !tokenizer.prefix().empty()) sink(tokenizer.prefix());
  ZEROTH_RETURN_IF_ERROR(tokenizer.EncodeTo(part.text, !part.begins, sink));
  if (!part.ends) return absl::OkStatus();
  const absl::Span<const int32_t> suffix = tokenizer.suffix();
  if (!suffix.empty()) sink(suffix);
  const int32_t end = tokenizer.end_of_text();
  if (suffix.empty() || suffix.back() != end) sink(absl::MakeConstSpan(&end, 1));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenByteText(
    const std::vector<DataFile>& files) {
  ZEROTH_CHECK(std::all_of(files.begin(), files.end(), [](const DataFile& file) {
    return file.compression == Compression::kNone;
  }));
  ZEROTH_CHECK(!files.empty());
  // Smaller files are copied to memory and closed.
  constexpr size_t kCopyBelow = size_t{64} << 10;
  const auto end = std::make_shared<const TokensInMemory<int32_t>>(
      std::vector<int32_t>{ByteTokenizer::kEndOfText}, TokenSource::Facts{});
  std::vector<std::shared_ptr<const TokenSource>> parts;
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(RandomAccessFile opened, RandomAccessFile::Open(file.path));
    if (opened.size() < kCopyBelow) {
      ZEROTH_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, opened.ReadHead(kCopyBelow));
      parts.push_back(
          std::make_shared<const TokensInMemory<uint8_t>>(std::move(bytes), TokenSource::Facts{}));
    } else {
      parts.push_back(BytesAsTokens(std::move(opened)));
    }
    parts.push_back(end);
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const TokenSource> all, Concatenate(std::move(parts)));
  TokenSource::Facts facts = all->facts();
  facts.description = DescribeFiles(files);
  return ViewTokens(std::move(all), 0, std::move(facts));
}

absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeText(const std::vector<DataFile>& files,
                                                              const Tokenizer& tokenizer,
                                                              ColumnNames columns) {
  ZEROTH_CHECK(!files.empty());
  constexpr int32_t kUint16Ids = std::numeric_limits<uint16_t>::max() + 1;
  if (tokenizer.vocab_size() <= kUint16Ids) return EncodeAs<uint16_t>(files, tokenizer, columns);
  return EncodeAs<int32_t>(files, tokenizer, columns);
}

}  // namespace zeroth
