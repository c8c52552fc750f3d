// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tools/inspect/inspected_file.h"

ABSL_FLAG(bool, verify, false,
          "Read every byte and verify every checksum, instead of printing the table.");
ABSL_FLAG(bool, diff, false,
          "Compare two paths tensor by tensor: bit by bit, or by value where types differ. A GGUF "
          "file can "
          "also be compared with a checkpoint or a model directory.");
ABSL_FLAG(bool, norms, true, "Print norms, which needs reading all elements.");

namespace zeroth {
namespace {

// Returns true if nothing is damaged and nothing differs.
absl::StatusOr<bool> Inspect(int argc, char** argv) {
  ZEROTH_ASSIGN_OR_RETURN(
      const std::vector<std::string> paths,
      ParseFlagsAndWords(
          "Shows what is in a checkpoint, in safetensors files or in a GGUF file.\n\n"
          "  inspect [--verify] PATH\n"
          "  inspect --diff A B\n\n"
          "The exit code is 1 if something is damaged or differs, and 2 after an error.",
          "tools/inspect/main.cc", argc, argv));
  ZEROTH_RETURN_IF_ERROR(EnterUsersDirectory());
  const bool diff = absl::GetFlag(FLAGS_diff);
  if (paths.size() != (diff ? 2u : 1u)) {
    return absl::InvalidArgumentError(diff ? "--diff needs two paths: inspect --diff A B"
                                           : "expected one path: inspect [--verify] PATH");
  }
  bool wrong = false;
  std::string report;
  if (diff) {
    ZEROTH_ASSIGN_OR_RETURN(const auto pair, InspectedFile::OpenPair(paths[0], paths[1]));
    ZEROTH_ASSIGN_OR_RETURN(report, DiffReport(pair.first, pair.second, wrong));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(const InspectedFile file, InspectedFile::Open(paths[0]));
    if (absl::GetFlag(FLAGS_verify)) {
      report = VerifyReport(file, wrong);
    } else {
      ZEROTH_ASSIGN_OR_RETURN(report, TableOf(file, absl::GetFlag(FLAGS_norms)));
    }
  }
  std::fputs(report.c_str(), stdout);
  return !wrong;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  bool well = false;
  const int failed = zeroth::RunProgram([&]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(well, zeroth::Inspect(argc, argv));
    return absl::OkStatus();
  });
  return failed != 0 ? 2 : well ? 0 : 1;
}
