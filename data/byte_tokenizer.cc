// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/byte_tokenizer.h"

#include <algorithm>
#include <array>

#include "zeroth/data/unicode.h"

namespace zeroth {

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
