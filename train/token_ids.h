// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_TOKEN_IDS_H_
#define ZEROTH_TRAIN_TOKEN_IDS_H_

#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// What the exported config.json says of special tokens, always: where it says nothing, transformers
// takes its own models' ids, which GPT-2's 50256 is beyond a byte model's vocabulary. They are the
// byte tokenizer's where the text was bytes, those of `source`, the config.json that the model came
// from, where it has them, the tokenizer's, or null where nothing is known. `tokenizer` may be
// null.
nlohmann::json TokenIds(const nlohmann::json& source, const Tokenizer* tokenizer);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_TOKEN_IDS_H_
