// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/sampler.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/text_generation.h"

namespace zeroth {

absl::StatusOr<std::string> Sample(Trainer& trainer, const Tokenizer& tokenizer,
                                   absl::string_view prompt, GenerateOptions options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, PromptTokens(tokenizer, prompt));
  options.vocab_size = tokenizer.vocab_size();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::vector<int32_t> tokens,
      Generate(trainer.model(), ids, options,
               [&](absl::Span<const int32_t> window, int64_t from, KeyValueCache* cache) {
                 return trainer.Logits(window, from, cache);
               }));
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, DecodeContinuation(tokenizer, ids, tokens));
  return absl::StrCat(prompt, text);
}

}  // namespace zeroth
