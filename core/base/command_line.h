// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the project's programs do alike when they start.

#ifndef ZEROTH_CORE_BASE_COMMAND_LINE_H_
#define ZEROTH_CORE_BASE_COMMAND_LINE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace zeroth {

// --help shows the flags of this source file (a part of its path), not those of the libraries. Call
// it before flags are parsed.
void ShowFlagsOf(std::string source);

// Runs a program and returns its exit code: 0, or 1 after an error, which is printed to stderr.
// What would end the process is an error of the call that caused it from then on: a write to a pipe
// that nobody reads (SIGPIPE) or beyond the limit on the size of files (SIGXFSZ), and an exception,
// as for want of memory.
int RunProgram(absl::FunctionRef<absl::Status()> program);

// Under `bazel run` a program starts in Bazel's folders, but relative paths mean where the user
// stands: goes there, and nowhere otherwise. NotFound names a folder that cannot be entered.
absl::Status EnterUsersDirectory();

}  // namespace zeroth

#endif  // ZEROTH_CORE_BASE_COMMAND_LINE_H_
