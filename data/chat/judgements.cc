// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/judgements.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Span<const ChatMessage> PromptOf(const Example& example) {
  return absl::MakeConstSpan(example.messages).first(example.prompt_messages);
}

// True if the prompts of `a` and `b` differ, and the answer of `b` can follow the prompt of `a`.
bool Mismatches(const Example& a, const Example& b) {
  if (a.messages.empty() != b.messages.empty()) return false;
  if (a.messages.empty()) return a.prompt != b.prompt;
  return PromptOf(a) != PromptOf(b) &&
         a.messages[a.prompt_messages].role == b.messages[b.prompt_messages].role;
}

}  // namespace

void AddJudgements(Example example, RecordKind kind, const std::string& where,
                   std::vector<Judgement>& judgements) {
  if (!IsPair(kind)) {
    judgements.push_back({std::move(example), where});
    return;
  }
  Example rejected = example;
  rejected.messages = std::move(rejected.rejected_messages);
  rejected.completion = std::move(rejected.rejected_completion);
  example.is_desirable = true;
  judgements.push_back({std::move(example), where});
  judgements.push_back({std::move(rejected), where});
}

absl::StatusOr<Judgement> WithMismatchedAnswer(const std::vector<Judgement>& judgements,
                                               size_t index) {
  Example example = judgements[index].example;
  const size_t count = judgements.size();
  size_t other = index;
  do {
    other = (other + count - 1) % count;
    if (other == index) {
      return InvalidArgument(judgements[index].where, ": none of the other ", count - 1,
                             " judgements has an answer to another prompt that could follow this "
                             "one, on which the KL is estimated; expected at least two prompts");
    }
  } while (!Mismatches(example, judgements[other].example));
  const Example& mismatched = judgements[other].example;
  example.rejected_completion = mismatched.completion;
  const absl::Span<const ChatMessage> prompt = PromptOf(example);
  example.rejected_messages.assign(prompt.begin(), prompt.end());
  for (size_t i = mismatched.prompt_messages; i < mismatched.messages.size(); ++i) {
    example.rejected_messages.push_back(mismatched.messages[i]);
    // The record's flag of whether its answer is learned does not apply to the KL.
    example.rejected_messages.back().is_learned.reset();
  }
  return Judgement{
      std::move(example),
      absl::StrCat(judgements[index].where, ", beside the answer of ", judgements[other].where)};
}

}  // namespace zeroth
