// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

}  // namespace zeroth
