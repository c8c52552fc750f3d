// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the project's programs do alike when they start.

#ifndef ZEROTH_CORE_BASE_COMMAND_LINE_H_
#define ZEROTH_CORE_BASE_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Parses Abseil's flags, and returns the other words. --help prints `usage` and the flags of this
// source file (a part of its path), not those of the libraries. InvalidArgument names flags that do
// not exist, and which may be meant; a value that a flag cannot take ends the program.
absl::StatusOr<std::vector<std::string>> ParseFlagsAndWords(absl::string_view usage,
                                                            std::string source, int argc,
                                                            char** argv);
// The same for a program that takes flags alone, and EnterUsersDirectory(). InvalidArgument for
// another word says how flags look: `example` is one.
absl::Status ParseFlags(absl::string_view usage, std::string source, absl::string_view example,
                        int argc, char** argv);

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
