// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/text_generation.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

absl::StatusOr<std::vector<int32_t>> PromptTokens(const Tokenizer& tokenizer,
                                                  absl::string_view text) {
  std::vector<int32_t> ids(tokenizer.prefix().begin(), tokenizer.prefix().end());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> own, tokenizer.Encode(text));
  ids.insert(ids.end(), own.begin(), own.end());
  if (ids.empty()) ids.push_back(tokenizer.end_of_text());
  return ids;
}

absl::StatusOr<std::string> DecodeContinuation(const Tokenizer& tokenizer,
                                               absl::Span<const int32_t> prompt,
                                               absl::Span<const int32_t> tokens) {
  std::vector<int32_t> all(prompt.begin(), prompt.end());
  ZEROTH_ASSIGN_OR_RETURN(const std::string before, tokenizer.Decode(all));
  all.insert(all.end(), tokens.begin(), tokens.end());
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(all));
  return text.substr(std::min(before.size(), text.size()));
}

std::vector<int32_t> StopTokens(const nlohmann::json& config, const Tokenizer& tokenizer) {
  std::vector<int32_t> stop = {tokenizer.end_of_text()};
  // If a model with another vocabulary was trained further on bytes, its config's ids mean bytes
  // now.
  if (dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr) return stop;
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return stop;
  const nlohmann::json ids = found->is_array() ? *found : nlohmann::json::array({*found});
  for (const nlohmann::json& id : ids) {
    if (id.is_number_integer()) stop.push_back(id.get<int32_t>());
  }
  return stop;
}

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const DecodedChar first = DecodeUtf8(text);
    // U+0080 to U+009F are control characters, which a terminal would act on.
    const bool control =
        first.code_point < 0x20 || (first.code_point >= 0x7F && first.code_point < 0xA0);
    if (first.code_point == '\n' || first.code_point == '\t' ||
        (!control && first.code_point != DecodedChar::kInvalid)) {
      out.append(text.data(), first.length);
    } else {
      for (const char byte : text.substr(0, first.length)) {
        absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(first.length);
  }
  return out;
}

}  // namespace zeroth
