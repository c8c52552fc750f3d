// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_GPT2_SPLIT_H_
#define ZEROTH_DATA_GPT2_SPLIT_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace zeroth {

// Bytes of the first word of `text`, which must not be empty: what GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// matches at its start. Byte pairs never merge across words. The words tile the text; a word may
// need to look one character past its end but never further. Bytes that are not UTF-8 count as
// neither letter, number nor space.
size_t Gpt2WordLength(absl::string_view text);

}  // namespace zeroth

#endif  // ZEROTH_DATA_GPT2_SPLIT_H_
