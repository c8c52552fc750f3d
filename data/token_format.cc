// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

constexpr size_t kMagicBytes = sizeof(kNpyMagic) - 1;
// NumPy's limit against hostile headers is 10,000.
constexpr size_t kMaxHeaderBytes = 65536;
constexpr size_t kMaxDims = 32;
// Length of the headers that NpyHeaderBytes writes.
constexpr size_t kNpyHeaderBytes = 128;

// Parses the one form of Python dictionary literal that .npy headers use.
class DictReader {
 public:
  DictReader(absl::string_view text, size_t file_offset) : text_(text), file_offset_(file_offset) {}

  absl::StatusOr<NpyHeader> Read() {
    NpyHeader header;
    std::set<std::string> seen;
    ZEROTH_RETURN_IF_ERROR(Expect("{"));
    while (!Take("}")) {
      ZEROTH_ASSIGN_OR_RETURN(const std::string key, ReadString());
      ZEROTH_RETURN_IF_ERROR(Expect(":"));
      const bool is_new = seen.insert(key).second;
      if (is_new && key == "descr") {
        ZEROTH_ASSIGN_OR_RETURN(header.descr, ReadString());
      } else if (is_new && key == "fortran_order") {
        header.fortran_order = Take("True");
        if (!header.fortran_order) ZEROTH_RETURN_IF_ERROR(Expect("False"));
      } else if (is_new && key == "shape") {
        ZEROTH_ASSIGN_OR_RETURN(header.shape, ReadShape());
      } else {
        return Error(
            absl::StrCat("one each of 'descr', 'fortran_order' and 'shape', not '", key, "'"));
      }
      if (!Take(",")) {
        ZEROTH_RETURN_IF_ERROR(Expect("}"));
        break;
      }
    }
    if (seen.size() < 3) return Error("'descr', 'fortran_order' and 'shape'");
    SkipSpace();
    if (position_ != text_.size()) return Error("the end of the header");
    return header;
  }

 private:
  absl::Status Error(absl::string_view expected) const {
    return InvalidArgument("bad NumPy header at byte ", file_offset_ + position_, ": expected ",
                           expected);
  }

  void SkipSpace() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n'))
      ++position_;
  }

  bool Take(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(text_.substr(position_), token)) return false;
    position_ += token.size();
    return true;
  }

  absl::Status Expect(absl::string_view token) {
    return Take(token) ? absl::OkStatus() : Error(absl::StrCat("\"", token, "\""));
  }

  absl::StatusOr<std::string> ReadString() {
    const char quote = Take("'") ? '\'' : '"';
    if (quote == '"' && !Take("\""))
      return Error("a quoted string (structured element types are not tokens)");
    const size_t end = text_.find(quote, position_);
    if (end == absl::string_view::npos) return Error("a closing quote");
    std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }

  absl::StatusOr<std::vector<int64_t>> ReadShape() {
    std::vector<int64_t> shape;
    ZEROTH_RETURN_IF_ERROR(Expect("("));
    while (!Take(")")) {
      SkipSpace();
      const size_t begin = position_;
      while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9')
        ++position_;
      int64_t dim = 0;
      if (shape.size() == kMaxDims ||
          !absl::SimpleAtoi(text_.substr(begin, position_ - begin), &dim)) {
        position_ = begin;
        return Error(absl::StrCat("at most ", kMaxDims, " dimensions that fit 63 bits"));
      }
      shape.push_back(dim);
      if (!Take(",")) {
        ZEROTH_RETURN_IF_ERROR(Expect(")"));
        break;
      }
    }
    return shape;
  }

  absl::string_view text_;
  size_t file_offset_;
  size_t position_ = 0;
};

struct LlmcFormat {
  int32_t magic;
  int32_t version;
  size_t token_bytes;
};

constexpr LlmcFormat kFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

int32_t HeaderWord(absl::Span<const uint8_t> file, size_t index) {
  int32_t word;
  std::memcpy(&word, file.data() + 4 * index, sizeof(word));
  return word;
}

const LlmcFormat* FindFormat(int32_t magic) {
  for (const LlmcFormat& format : kFormats) {
    if (format.magic == magic) return &format;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const uint8_t> file) {
  const absl::string_view magic(kNpyMagic, kMagicBytes);
  const absl::string_view start(reinterpret_cast<const char*>(file.data()),
                                std::min(file.size(), kMagicBytes));
  if (start != magic)
    return absl::InvalidArgumentError("does not begin with the magic \"\\x93NUMPY\" of .npy files");
  const size_t version = file.size() > kMagicBytes ? file[kMagicBytes] : 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t text_begin = kMagicBytes + 2 + length_bytes;
  if (version < 1 || version > 3) {
    return InvalidArgument("NumPy format version ", version, " at byte 6, expected 1, 2 or 3");
  }
  if (file.size() < text_begin) {
    return InvalidArgument("truncated: ", file.size(), " bytes, expected a NumPy header");
  }
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{file[kMagicBytes + 2 + i]} << (8 * i);
  if (length > kMaxHeaderBytes || length > file.size() - text_begin) {
    return InvalidArgument("the NumPy header claims ", length, " bytes, expected at most ",
                           std::min(kMaxHeaderBytes, file.size() - text_begin));
  }
  const absl::string_view text(reinterpret_cast<const char*>(file.data()) + text_begin, length);
  ZEROTH_ASSIGN_OR_RETURN(NpyHeader header, DictReader(text, text_begin).Read());
  header.data_begin = text_begin + length;
  return header;
}

std::vector<uint8_t> NpyHeaderBytes(size_t token_bytes, int64_t count) {
  std::string text = absl::StrCat(kNpyMagic, absl::string_view("\x01\x00", 2),
                                  absl::string_view("\x76\x00", 2), "{'descr': '<u", token_bytes,
                                  "', 'fortran_order': False, 'shape': (", count, ",), }");
  text.resize(kNpyHeaderBytes - 1, ' ');
  text.push_back('\n');
  return {text.begin(), text.end()};
}

bool HasLlmcMagic(absl::Span<const uint8_t> file) {
  return file.size() >= 4 && FindFormat(HeaderWord(file, 0)) != nullptr;
}

absl::StatusOr<LlmcHeader> ParseLlmcHeader(absl::Span<const uint8_t> head, size_t file_bytes) {
  if (!HasLlmcMagic(head)) {
    return InvalidArgument("does not begin with the magic ", kFormats[0].magic, " or ",
                           kFormats[1].magic, " of llm.c shards");
  }
  if (file_bytes < kLlmcHeaderBytes) {
    return InvalidArgument("truncated: ", file_bytes, " bytes, expected a header of ",
                           kLlmcHeaderBytes);
  }
  const LlmcFormat& format = *FindFormat(HeaderWord(head, 0));
  if (HeaderWord(head, 1) != format.version) {
    return InvalidArgument("version ", HeaderWord(head, 1), " at byte 4, expected ", format.version,
                           " with magic ", format.magic);
  }
  const LlmcHeader header = {HeaderWord(head, 2), format.token_bytes};
  if (header.count <= 0) {
    return InvalidArgument("token count ", header.count, " at byte 8, expected at least 1");
  }
  const size_t expected = kLlmcHeaderBytes + static_cast<size_t>(header.count) * header.token_bytes;
  if (file_bytes != expected) {
    return InvalidArgument(file_bytes, " bytes, expected ", expected, " for ", header.count,
                           " tokens of ", header.token_bytes, " bytes; is the file truncated?");
  }
  return header;
}

std::vector<uint8_t> LlmcHeaderBytes(size_t token_bytes, int64_t count) {
  const LlmcFormat& format = kFormats[token_bytes == 2 ? 0 : 1];
  const int32_t fields[] = {format.magic, format.version, static_cast<int32_t>(count)};
  std::vector<uint8_t> header(kLlmcHeaderBytes);
  std::memcpy(header.data(), fields, sizeof(fields));
  return header;
}

}  // namespace zeroth
