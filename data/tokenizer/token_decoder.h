// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/data/tokenizer/regex.h"

namespace zeroth {

// The "decoder" of a tokenizer.json, which turns tokens, spelled as in the vocabulary, into text.
// Knows ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip and Sequence. Immutable and
// thread-safe.
class TokenDecoder {
 public:
  // Joins tokens by spaces, as Hugging Face does if a file has no decoder.
  TokenDecoder() = default;
  // Unimplemented names an unknown kind; InvalidArgument names a wrong field.
  static absl::StatusOr<TokenDecoder> FromJson(const nlohmann::json& json);

  // Returns the text, whose bytes need not be UTF-8. With `replace_invalid` U+FFFD replaces invalid
  // bytes, in the same places and as often as in Hugging Face's library.
  absl::StatusOr<std::string> Decode(std::vector<std::string> tokens, bool replace_invalid) const;

 private:
  // Changes the tokens; `replace_invalid` as in Decode.
  using Step = std::function<absl::Status(bool replace_invalid, std::vector<std::string>& tokens)>;
  absl::Status Add(const std::string& type, const nlohmann::json& json);

  std::vector<Step> steps_;
};

}  // namespace zeroth
