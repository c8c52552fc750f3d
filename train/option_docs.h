// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What options.inc says, for people.

#ifndef ZEROTH_TRAIN_OPTION_DOCS_H_
#define ZEROTH_TRAIN_OPTION_DOCS_H_

#include <string>

namespace zeroth {

// What --help prints: all flags, group by group.
std::string HelpText();

// docs/flags.md.
std::string FlagsMarkdown();

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_OPTION_DOCS_H_
