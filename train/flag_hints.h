// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_FLAG_HINTS_H_
#define ZEROTH_TRAIN_FLAG_HINTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// What whoever wrote `unknown`, a flag's name without dashes, may have meant, as "--steps": what
// other frameworks call by that name, or else the names among `known` that are spelled alike, the
// nearest first. May be empty.
std::vector<std::string> FlagHints(absl::string_view unknown,
                                   const std::vector<std::string>& known);

// Checks what Abseil's parser would take in another sense than it was meant, or refuse without
// advice, before it parses: flags that do not exist, and flags without their value, for which it
// would take the flag behind them ("--resume --out=a"). InvalidArgument names them all.
absl::Status CheckFlags(int argc, char** argv);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLAG_HINTS_H_
