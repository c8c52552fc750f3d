// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/token_ids.h"

#include "zeroth/data/byte_tokenizer.h"

namespace zeroth {

nlohmann::json TokenIds(const nlohmann::json& source, const Tokenizer* tokenizer) {
  const bool is_bytes = dynamic_cast<const ByteTokenizer*>(tokenizer) != nullptr;
  nlohmann::json ids;
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const auto found = source.find(key);
    if (!is_bytes && found != source.end()) {
      ids[key] = *found;
    } else if (tokenizer != nullptr) {
      // One token stands before a text and after it.
      ids[key] = tokenizer->end_of_text();
    } else {
      ids[key] = nullptr;
    }
  }
  const auto padding = source.find("pad_token_id");
  if (!is_bytes && padding != source.end()) ids["pad_token_id"] = *padding;
  return ids;
}

}  // namespace zeroth
