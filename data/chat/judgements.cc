// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/judgements.h"

#include <utility>

#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Span<const ChatMessage> PromptOf(const Example& example) {
  return absl::MakeConstSpan(example.messages).first(example.prompt_messages);
}

bool Mismatches(const Example& a, const Example& b) {
  if (a.messages.empty() != b.messages.empty()) return false;
  return a.messages.empty() ? a.prompt != b.prompt : PromptOf(a) != PromptOf(b);
}

}  // namespace

void AddJudgements(Example example, RecordKind kind, const std::string& where,
                   std::vector<Judgement>& judgements, std::vector<Judgement>& rejected) {
  if (IsPair(kind)) {
    Example other = example;
    other.messages = std::move(other.rejected_messages);
    other.completion = std::move(other.rejected_completion);
    rejected.push_back({std::move(other), where});
    example.is_desirable = true;
  }
  judgements.push_back({std::move(example), where});
}

absl::StatusOr<Example> WithMismatchedAnswer(const std::vector<Judgement>& judgements,
                                             size_t index) {
  Example example = judgements[index].example;
  const size_t count = judgements.size();
  size_t other = index;
  do {
    other = (other + count - 1) % count;
    if (other == index) {
      return InvalidArgument(judgements[index].where, ": none of the other ", count - 1,
                             " judgements has another prompt, with whose answer the KL could be "
                             "estimated; expected at least two prompts");
    }
  } while (!Mismatches(example, judgements[other].example));
  const Example& mismatched = judgements[other].example;
  example.rejected_completion = mismatched.completion;
  const absl::Span<const ChatMessage> prompt = PromptOf(example);
  example.rejected_messages.assign(prompt.begin(), prompt.end());
  for (size_t i = mismatched.prompt_messages; i < mismatched.messages.size(); ++i) {
    example.rejected_messages.push_back(mismatched.messages[i]);
  }
  return example;
}

}  // namespace zeroth
