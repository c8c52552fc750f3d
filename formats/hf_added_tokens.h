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

// Adds the tokens of `tokenizer->config` to those of its tokenizer.json, as AutoTokenizer of
// transformers 5 does: "added_tokens_decoder", then the named tokens ("eos_token"), then
// "extra_special_tokens" or "additional_special_tokens". A token that is in the vocabulary keeps
// its id, another gets the next free one. InvalidArgument if the config gives it another id.
absl::Status AddTokensOfConfig(HfTokenizer* tokenizer);

// Unimplemented: the tokenizer of this file cannot get new tokens, only a tokenizer.json can.
absl::Status NoNewTokens(absl::string_view file);

// Adds special tokens with the next free ids, as add_special_tokens of transformers does, and
// returns them. InvalidArgument for a token that the tokenizer has already; NoNewTokens unless it
// is a tokenizer.json, the one format that WriteNewTokens writes.
absl::StatusOr<std::vector<AddedToken>> AddNewTokens(absl::Span<const std::string> contents,
                                                     HfTokenizer* tokenizer);

// Writes these tokens into the content of a tokenizer's files, by name: into tokenizer.json, and
// into tokenizer_config.json if that lists its added tokens. InvalidArgument names a file that is
// not JSON of that kind.
absl::Status WriteNewTokens(absl::Span<const AddedToken> tokens,
                            std::map<std::string, std::string>& files);

}  // namespace zeroth
