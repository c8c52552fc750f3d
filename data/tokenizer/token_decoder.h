// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_TOKEN_DECODER_H_
#define ZEROTH_DATA_TOKENIZER_TOKEN_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer/replacement.h"

namespace zeroth {

// The "decoder" of a tokenizer.json: tokens, as the vocabulary spells them, to text. Knows
// ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip and Sequence. Immutable and thread-safe.
class TokenDecoder {
 public:
  // Tokens joined by spaces, as Hugging Face does where a file has no decoder.
  TokenDecoder() = default;
  // Unimplemented names a kind that is not known; InvalidArgument a part that is wrong.
  static absl::StatusOr<TokenDecoder> FromJson(const nlohmann::json& json);
  static TokenDecoder ByteLevel();

  // The text; its bytes need not be UTF-8. With `replace_invalid` they are: U+FFFD stands for what
  // is none, in the places and as often as in Hugging Face's library.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens, bool replace_invalid) const;

 private:
  enum class Kind { kByteLevel, kByteFallback, kMetaspace, kReplace, kFuse, kStrip };
  struct Step {
    Kind kind = Kind::kFuse;
    std::string text;          // kMetaspace: what is a space; kStrip: what is taken away
    int64_t start = 0;         // kStrip: at most so often at the front
    int64_t stop = 0;          // and at the end
    bool drops_first = false;  // kMetaspace: the first token's are no spaces
    Replacement replace;       // kReplace
  };

  absl::Status Add(const nlohmann::json& json, int depth);
  static absl::Status Apply(const Step& step, bool replace_invalid,
                            std::vector<std::string>* tokens);

  std::vector<Step> steps_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_TOKEN_DECODER_H_
