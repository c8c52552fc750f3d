// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/documents.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// Bytes of a file of lines that are read at a time.
constexpr size_t kReadBytes = size_t{1} << 20;

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

// Refuses a record of text with a key that would change what is learned from it.
absl::Status CheckTextKeys(const nlohmann::json& json) {
  for (const char* const key : {"weight", "loss", "trainable"}) {
    const auto found = json.find(key);
    const bool is_plain = found == json.end() || found->is_null() || *found == true ||
                          (found->is_number() && *found == 1);
    if (is_plain) continue;
    return InvalidArgument("has \"", key, "\": ", Shorten(found->dump(-1, ' ', true)),
                           ", but all text is learned alike; leave the record or the key out");
  }
  if (json.contains("messages")) {
    return absl::InvalidArgumentError(
        "has \"text\" and \"messages\", but the file's first record is text; keep one of them");
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeAs(const std::vector<DataFile>& files,
                                                            const Tokenizer& tokenizer) {
  std::vector<T> ids;
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader,
                            DocumentReader::Open(file, tokenizer.CutsAtSpaces()));
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
  ids.shrink_to_fit();
  TokenSource::Facts facts;
  facts.description = DescribeFiles(files);
  return std::make_shared<const TokensInMemory<T>>(std::move(ids), std::move(facts));
}

}  // namespace

std::string DescribeRecord(const nlohmann::json& json) {
  constexpr char kMessages[] =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": \"assistant\", "
      "\"content\": \"...\"}]}";
  struct Format {
    const char* name;
    std::vector<const char*> keys;
  };
  static const std::vector<Format>& formats = *new std::vector<Format>({
      {"is of the ShareGPT format (\"conversations\" of \"from\" and \"value\")",
       {"conversations"}},
      {"is of the Alpaca format (\"instruction\", \"input\", \"output\")",
       {"instruction", "output"}},
      {"is of the Alpaca format (\"instruction\")", {"instruction"}},
      {"has pairs of answers for preference learning (\"chosen\", \"rejected\")",
       {"chosen", "rejected"}},
      {"is of the format \"prompt\", \"completion\"", {"prompt", "completion"}},
      {"is of the format \"prompt\", \"response\"", {"prompt", "response"}},
      {"is of the format \"question\", \"answer\"", {"question", "answer"}},
  });
  if (!json.is_object()) return absl::StrCat("found ", json.type_name());
  if (json.contains("messages")) {
    return "and this is a conversation (\"messages\"): the trainer's --data reads a file of these, "
           "without text between them";
  }
  for (const Format& format : formats) {
    const bool is_it = std::all_of(format.keys.begin(), format.keys.end(),
                                   [&json](const char* key) { return json.contains(key); });
    if (is_it) return absl::StrCat("and this ", format.name, "; expected ", kMessages);
  }
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    if (keys.size() < 8) keys.push_back(Excerpt(key, 20));
  }
  return absl::StrCat("found the keys ", keys.empty() ? "(none)" : absl::StrJoin(keys, ", "),
                      keys.size() < json.size() ? ", ..." : "");
}

absl::StatusOr<DocumentReader> DocumentReader::Open(const DataFile& file, bool cuts_at_spaces,
                                                    size_t part_bytes) {
  DocumentReader reader;
  ZEROTH_ASSIGN_OR_RETURN(reader.file_, RandomAccessFile::Open(file.path));
  reader.is_lines_ = file.kind == DataFileKind::kJsonLines;
  reader.cuts_at_spaces_ = cuts_at_spaces;
  reader.part_bytes_ = reader.is_lines_ ? kReadBytes : part_bytes;
  return reader;
}

void DocumentReader::Seek(size_t position, int64_t lines, bool inside) {
  held_.clear();
  held_begin_ = 0;
  read_ = position_ = std::min(position, file_.size());
  lines_ = lines;
  inside_ = inside;
  done_ = !is_lines_ && !inside && position > 0;
}

absl::Status DocumentReader::ReadMore() {
  held_.erase(0, held_begin_);
  held_begin_ = 0;
  const size_t before = held_.size();
  const size_t count = std::min(part_bytes_, file_.size() - read_);
  held_.resize(before + count);
  ZEROTH_RETURN_IF_ERROR(
      file_.Read(read_, absl::MakeSpan(reinterpret_cast<uint8_t*>(held_.data()) + before, count)));
  read_ += count;
  return absl::OkStatus();
}

absl::StatusOr<bool> DocumentReader::NextText(TextPart* part) {
  if (done_) return false;
  size_t end = 0;
  while (end == 0) {
    const size_t least = held_.size() - held_begin_;
    ZEROTH_RETURN_IF_ERROR(ReadMore());
    if (read_ == file_.size()) {
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

absl::StatusOr<bool> DocumentReader::NextRecord(JsonRecord* record) {
  while (true) {
    size_t searched = held_begin_;
    size_t end = held_.find('\n', searched);
    while (end == std::string::npos && read_ < file_.size()) {
      searched = held_.size() - held_begin_;
      ZEROTH_RETURN_IF_ERROR(ReadMore());
      end = held_.find('\n', searched);
    }
    if (end == std::string::npos && held_begin_ == held_.size()) return false;
    const size_t stop = std::min(end, held_.size());
    const absl::string_view line = absl::string_view(held_).substr(held_begin_, stop - held_begin_);
    const size_t taken = line.size() + (end == std::string::npos ? 0 : 1);
    ++lines_;
    position_ += taken;
    held_begin_ += taken;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    record->where = absl::StrCat(file_.path(), " line ", lines_);
    ZEROTH_ASSIGN_OR_RETURN(record->json, ParseJson(line, record->where));
    return true;
  }
}

absl::StatusOr<bool> DocumentReader::Next(TextPart* part) {
  if (!is_lines_) return NextText(part);
  JsonRecord record;
  ZEROTH_ASSIGN_OR_RETURN(const bool more, NextRecord(&record));
  if (!more) return false;
  const nlohmann::json& json = record.json;
  const auto text = json.is_object() ? json.find("text") : json.end();
  if (text == json.end() || !text->is_string()) {
    return InvalidArgument(record.where, ": expected an object with \"text\", a string, ",
                           DescribeRecord(json));
  }
  ZEROTH_RETURN_IF_ERROR_WITH(CheckTextKeys(json), record.where);
  *part = {text->get<std::string>(), true, true};
  return true;
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
                                                              const Tokenizer& tokenizer) {
  ZEROTH_CHECK(!files.empty());
  constexpr int32_t kUint16Ids = std::numeric_limits<uint16_t>::max() + 1;
  if (tokenizer.vocab_size() <= kUint16Ids) return EncodeAs<uint16_t>(files, tokenizer);
  return EncodeAs<int32_t>(files, tokenizer);
}

}  // namespace zeroth
