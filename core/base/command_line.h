// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the project's programs do alike when they start.

#ifndef ZEROTH_CORE_BASE_COMMAND_LINE_H_
#define ZEROTH_CORE_BASE_COMMAND_LINE_H_

#include <string>

#include "absl/status/status.h"

namespace zeroth {

// --help shows the flags of this source file (a part of its path), not those of the libraries. Call
// it before flags are parsed.
void ShowFlagsOf(std::string source);

// Under `bazel run` a program starts in Bazel's folders, but relative paths mean where the user
// stands: goes there, and nowhere otherwise. NotFound names a folder that cannot be entered.
absl::Status EnterUsersDirectory();

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_COMMAND_LINE_H_
