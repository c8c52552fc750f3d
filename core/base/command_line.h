// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Parses the command lines of the project's programs, and runs them.

#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// The release, as //tools/package names it.
inline constexpr absl::string_view kVersion = "0.1.0";

// Parses Abseil's flags, and returns the other words. --help prints `usage` and only the flags that
// are defined in `source` (a part of a file's path). --version prints kVersion. InvalidArgument
// names flags that do not exist, and suggests similar ones. An invalid value of a flag ends the
// program.
absl::StatusOr<std::vector<std::string>> ParseFlagsAndWords(absl::string_view usage,
                                                            std::string source, int argc,
                                                            char** argv);
// Like ParseFlagsAndWords, for a program that takes only flags. Also calls EnterUsersDirectory().
// The InvalidArgument for any other word shows `example`, a flag.
absl::Status ParseFlags(absl::string_view usage, std::string source, absl::string_view example,
                        int argc, char** argv);

// Returns InvalidArgument with everything in `wrong`, one a line if there are several, and then
// that --help lists all flags. OK if `wrong` is empty.
absl::Status RefusedFlags(const std::vector<std::string>& wrong);

// Runs a program and returns its exit code: 0, or 1 after an error, which it prints to stderr.
// Ignores SIGPIPE and SIGXFSZ, so that writing to a closed pipe, or beyond the limit on file sizes,
// is an error of that write. Standard streams that are closed become /dev/null. An exception from
// `program`, such as for lack of memory, is an error, too, and so is standard output that could not
// be written, unless it is a pipe: its reader may leave.
int RunProgram(absl::FunctionRef<absl::Status()> program);

// `bazel run` starts a program in Bazel's folders. Changes to the user's directory then, to which
// relative paths refer, and does nothing otherwise. NotFound names a directory that it cannot
// enter.
absl::Status EnterUsersDirectory();

}  // namespace zeroth
