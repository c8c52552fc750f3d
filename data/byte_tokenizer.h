// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_BYTE_TOKENIZER_H_
#define ZEROTH_DATA_BYTE_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Every byte is a token, 0 to 255; 256 ends a text. Needs no files and no training. "<|endoftext|>"
// inside a text is thirteen ordinary bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;
  static constexpr int32_t kVocabSize = 257;

  std::string name() const override { return "byte"; }
  int32_t vocab_size() const override { return kVocabSize; }
  int32_t end_of_text() const override { return kEndOfText; }
  std::optional<int32_t> Find(absl::string_view token) const override;
  absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const override;
  bool CutsAtSpaces() const override { return true; }

 protected:
  absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids,
                                        bool replace_invalid) const override;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_BYTE_TOKENIZER_H_
