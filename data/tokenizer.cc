// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer.h"

namespace zeroth {

std::vector<int32_t> Tokenizer::Encode(absl::string_view text) const {
  std::vector<int32_t> ids;
  EncodeTo(text, [&ids](absl::Span<const int32_t> piece) {
    ids.insert(ids.end(), piece.begin(), piece.end());
  });
  return ids;
}

}  // namespace zeroth
