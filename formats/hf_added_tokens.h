// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/formats/hf_tokenizer.h"

namespace zeroth {

// Reads an added token. Its `id` is a field in tokenizer.json and a key in "added_tokens_decoder",
// so the caller reads it.
absl::StatusOr<AddedToken> ReadAddedToken(const nlohmann::json& json, int64_t id);
// The inverse of ReadAddedToken: returns the content and the flags, without the id.
nlohmann::ordered_json JsonOf(const AddedToken& token);

// Adds the tokens of `tokenizer->config` to those of its tokenizer.json, as AutoTokenizer of
// transformers 5 does: "added_tokens_decoder", then the named tokens ("eos_token"), then
// "extra_special_tokens" or "additional_special_tokens". A token that is in the vocabulary keeps
// its id, another gets the next free one. InvalidArgument if the config gives it another id, unless
// `keeps_ids`: then the ids of "added_tokens_decoder" count, as in the tokenizers of transformers 4
// that read a SentencePiece model.
absl::Status AddTokensOfConfig(HfTokenizer* tokenizer, bool keeps_ids = false);

// Unimplemented: the tokenizer of this file cannot get new tokens, only a tokenizer.json can.
absl::Status NoNewTokens(absl::string_view file);

// Adds special tokens with the next free ids, as add_special_tokens of transformers does.
// InvalidArgument for a token that the tokenizer has already, or that is not UTF-8; NoNewTokens
// unless the tokenizer is a tokenizer.json, the one format that WriteAddedTokens writes.
absl::Status AddNewTokens(absl::Span<const std::string> contents, HfTokenizer* tokenizer);

// Writes the added tokens that a tokenizer's files lack into their contents, by name: into `name`,
// which is a tokenizer.json, and into tokenizer_config.json if that lists its added tokens.
// Libraries number the added tokens of a tokenizer.json in its order, whatever ids it says, so
// tokens that only other files name are written, too. InvalidArgument names a file that is not JSON
// of that kind.
absl::Status WriteAddedTokens(const std::string& name, std::vector<AddedToken> tokens,
                              std::map<std::string, std::string>& files);

}  // namespace zeroth
