// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

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

}  // namespace zeroth
