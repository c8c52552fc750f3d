// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Answers that somebody judged, one by one, and the mismatched answers that the KL is estimated on.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/examples.h"
#include "zeroth/data/records.h"

namespace zeroth {

struct Judgement {
  Example example;
  std::string where;  // file, and line or number
};

// Adds the judgements of a record: a judged completion, or both answers of a pair, the chosen one
// as desirable and the rejected one as undesirable. Both stay together, so that they are held out
// together.
void AddJudgements(Example example, RecordKind kind, const std::string& where,
                   std::vector<Judgement>& judgements);

// Returns judgement number `index` as a pair whose rejected answer is mismatched: that of the
// nearest earlier judgement whose prompt differs, where the last judgement precedes the first. Text
// and messages do not mix. Its `where` names both records. InvalidArgument names the judgement if
// all prompts are the same.
absl::StatusOr<Judgement> WithMismatchedAnswer(const std::vector<Judgement>& judgements,
                                               size_t index);

}  // namespace zeroth
