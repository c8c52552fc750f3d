// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer's command line. Each option of options.inc is a flag: --name=VALUE or --name VALUE,
// and --name or --noname for an option that is true or false. If a flag is given twice, the last
// one counts. Further flags:
//
//   --config=FILE    reads options from a TOML file (ReadConfig); flags override it
//   --flagfile=FILE  reads further words of the command line, one a line; # begins a comment
//   --undefok=NAMES  comma-separated names of flags that may be unknown
//   --help           prints all flags; --help=markdown prints docs/flags.md
//   --version        prints the version, the commit, and what the program was built with

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/options/options.h"

namespace zeroth {

// Parses the trainer's command line. --help and --version print and exit the program.
// InvalidArgument lists everything that is wrong: arguments that are not flags, unknown flags with
// a guess at what was meant, and missing or wrong values. Also the errors of ReadConfig. ResolveRun
// checks that the options fit each other.
absl::StatusOr<TrainOptions> ParseCommandLine(int argc, char** argv);

// A flag of a program other than the trainer: a switch if `value` is set, --name=TEXT if `text` is.
struct ProgramFlag {
  const char* name;
  bool* value = nullptr;
  std::optional<std::string>* text = nullptr;
};
// Like ParseCommandLine, for other programs that use the trainer's options. --help prints `help`.
// `program_flags` are the program's additional flags, in the same syntax; sets those that the
// command line names.
absl::StatusOr<TrainOptions> ReadCommandLine(int argc, char** argv, const std::string& help,
                                             const std::vector<ProgramFlag>& program_flags);

// Returns the text of --help: all flags, group by group.
std::string HelpText();

// Returns the text of docs/flags.md.
std::string FlagsMarkdown();

}  // namespace zeroth
