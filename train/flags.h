// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer's command line. Each option of options.inc is a flag: --name=VALUE or --name VALUE,
// and --name or --noname for one that is true or false; of a flag that is given twice the last one
// counts. Beside them:
//
//   --config=FILE    options from a file, see config_file.h; flags override it
//   --flagfile=FILE  more words of the command line, one a line; lines of # are comments
//   --undefok=NAMES  flags that there need not be, with commas in between
//   --help           prints all flags; --help=markdown docs/flags.md
//   --version

#ifndef ZEROTH_TRAIN_FLAGS_H_
#define ZEROTH_TRAIN_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Parses the command line into options, which are validated; --help and --version, which shows
// `version`, print and exit. InvalidArgument for arguments that are not flags, flags that do not
// exist (with what may have been meant) or have no value or a wrong one, all of them at once; the
// errors of ReadConfig and Validate.
absl::StatusOr<TrainOptions> ParseCommandLine(int argc, char** argv, const std::string& version);

// The same without Validate, for programs that take the trainer's options and need not all of them:
// tools/plan has no --data. `help` is what --help prints, and `others` are flags of its own, which
// are taken out of the command line and set if they are there: a switch, or with `text` a
// --name=TEXT.
struct OwnSwitch {
  const char* name;
  bool* value = nullptr;
  std::optional<std::string>* text = nullptr;
};
absl::StatusOr<TrainOptions> ReadCommandLine(int argc, char** argv, const std::string& version,
                                             const std::string& help,
                                             const std::vector<OwnSwitch>& others);

// What --help prints: all flags, group by group.
std::string HelpText();

// docs/flags.md.
std::string FlagsMarkdown();

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLAGS_H_
