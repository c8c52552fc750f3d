// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For tests: starts programs with a real mpirun.

#pragma once

#include <sys/types.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth::testing {

enum class MpiKind { kOpenMpi, kMpich };

// "open_mpi", "mpich".
std::string MpiKindName(MpiKind kind);
std::ostream& operator<<(std::ostream& out, MpiKind kind);

// True if this machine has an mpirun of this kind.
bool HasMpirun(MpiKind kind);

#define ZEROTH_SKIP_WITHOUT_MPIRUN(kind)                                                \
  if (!::zeroth::testing::HasMpirun(kind))                                              \
  GTEST_SKIP() << "no mpirun of " << (kind) << " on PATH (Debian: packages openmpi-bin" \
               << " and mpich)"

// A run of ranks on this machine.
struct Mpirun {
  MpiKind kind = MpiKind::kOpenMpi;
  int ranks = 1;
  std::vector<std::string> program;  // the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment = {};
  // Open MPI's mpirun does not end the other ranks when one is killed.
  bool keeps_others = false;
};

struct MpirunOutcome {
  int exit_code = -1;  // of mpirun; -1 if a signal ended it
  // The output of mpirun and of all ranks, stdout and stderr. RunMpirun keeps ranks' outputs apart.
  std::string output;
};

// Starts the ranks, with their output in the file `log`. Returns the process of mpirun.
pid_t StartMpirun(const Mpirun& run, const std::string& log);
MpirunOutcome AwaitMpirun(pid_t mpirun, const std::string& log);
MpirunOutcome RunMpirun(const Mpirun& run);

// Expects `program`, a suite of tests, to pass the tests that `filter` selects on every rank.
// `representative` is one of these tests, because a filter that selects nothing would pass as well.
void ExpectRanksPass(const Mpirun& run, const std::string& filter,
                     const std::string& representative);

}  // namespace zeroth::testing
