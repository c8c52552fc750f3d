// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

namespace zeroth {

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> ids;
  ZEROTH_RETURN_IF_ERROR(EncodeTo(text, false, [&ids](absl::Span<const int32_t> piece) {
    ids.insert(ids.end(), piece.begin(), piece.end());
  }));
  return ids;
}

absl::Status Tokenizer::CheckIds(absl::Span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size()) continue;
    return absl::OutOfRangeError(
        absl::StrCat("id ", ids[i], " at position ", i, ", expected 0 to ", vocab_size() - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids) const {
  ZEROTH_RETURN_IF_ERROR(CheckIds(ids));
  return DecodeIds(ids, false);
}

absl::StatusOr<std::string> Tokenizer::DecodeUtf8Text(absl::Span<const int32_t> ids) const {
  ZEROTH_RETURN_IF_ERROR(CheckIds(ids));
  return DecodeIds(ids, true);
}

absl::Status ByteTokenizer::EncodeTo(absl::string_view text, bool /*continues*/, Sink sink) const {
  std::array<int32_t, 4096> piece;
  while (!text.empty()) {
    const size_t count = std::min(text.size(), piece.size());
    std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count), piece.begin(),
                   [](char c) { return static_cast<int32_t>(static_cast<uint8_t>(c)); });
    sink(absl::MakeConstSpan(piece.data(), count));
    text.remove_prefix(count);
  }
  return absl::OkStatus();
}

std::optional<int32_t> ByteTokenizer::Find(absl::string_view token) const {
  if (token == kEndOfTextSpelling) return kEndOfText;
  return token.size() == 1 ? std::optional<int32_t>(static_cast<uint8_t>(token[0])) : std::nullopt;
}

absl::StatusOr<std::string> ByteTokenizer::DecodeIds(absl::Span<const int32_t> ids,
                                                     bool replace_invalid) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id == kEndOfText) {
      text += kEndOfTextSpelling;
    } else {
      text.push_back(static_cast<char>(id));
    }
  }
  return replace_invalid ? ReplaceInvalidUtf8(text) : text;
}

}  // namespace zeroth
