// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_FLAG_HINTS_H_
#define ZEROTH_TRAIN_FLAG_HINTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace zeroth {

// What whoever wrote `unknown`, a flag's name without dashes, may have meant, as "--steps": what
// other frameworks and earlier versions call by that name, or else the names among `known` that are
// spelled alike, the nearest first. May be empty.
std::vector<std::string> FlagHints(absl::string_view unknown,
                                   const std::vector<std::string>& known);

// "; did you mean --beta1 or --beta2?" of the trainer's options; nothing where there are no hints.
std::string DidYouMean(absl::string_view unknown);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLAG_HINTS_H_
