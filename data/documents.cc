// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/documents.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

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

}  // namespace

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

absl::StatusOr<bool> DocumentReader::Next(TextPart* part) {
  return is_lines_ ? NextLine(part) : NextText(part);
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

absl::StatusOr<bool> DocumentReader::NextLine(TextPart* part) {
  JsonRecord record;
  ZEROTH_ASSIGN_OR_RETURN(const bool more, NextRecord(&record));
  if (!more) return false;
  const nlohmann::json& json = record.json;
  const auto text = json.is_object() ? json.find("text") : json.end();
  if (text == json.end() || !text->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(record.where, ": expected an object with \"text\", a string"));
  }
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

}  // namespace zeroth
