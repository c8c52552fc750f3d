// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/byte_tokenizer.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroth {

void ByteTokenizer::EncodeTo(absl::string_view text, Sink sink) const {
  std::array<int32_t, 4096> piece;
  while (!text.empty()) {
    const size_t count = std::min(text.size(), piece.size());
    std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count), piece.begin(),
                   [](char c) { return static_cast<int32_t>(static_cast<uint8_t>(c)); });
    sink(absl::MakeConstSpan(piece.data(), count));
    text.remove_prefix(count);
  }
}

absl::StatusOr<std::string> ByteTokenizer::Decode(absl::Span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kVocabSize) {
      return absl::OutOfRangeError(
          absl::StrCat("id ", ids[i], " at position ", i, ", expected 0 to ", kVocabSize - 1));
    }
    if (ids[i] == kEndOfText) {
      text += kEndOfTextSpelling;
    } else {
      text.push_back(static_cast<char>(ids[i]));
    }
  }
  return text;
}

}  // namespace zeroth
