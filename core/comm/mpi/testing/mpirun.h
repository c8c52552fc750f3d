// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Programs started by a real mpirun, for tests.

#ifndef ZEROTH_CORE_COMM_MPI_TESTING_MPIRUN_H_
#define ZEROTH_CORE_COMM_MPI_TESTING_MPIRUN_H_

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

// Those on this machine.
bool HasMpirun(MpiKind kind);

#define ZEROTH_SKIP_WITHOUT_MPIRUN(kind)                                                \
  if (!::zeroth::testing::HasMpirun(kind))                                              \
  GTEST_SKIP() << "no mpirun of " << (kind) << " on PATH (Debian: packages openmpi-bin" \
               << " and mpich)"

// Ranks as one machine's mpirun starts them.
struct Mpirun {
  MpiKind kind = MpiKind::kOpenMpi;
  int ranks = 1;
  std::vector<std::string> program;  // and its arguments
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<std::string> flags = {};  // of mpirun
};

struct MpirunOutcome {
  int exit_code = -1;  // of mpirun; -1 if a signal ended it
  std::string output;  // of mpirun and all ranks, both streams; of RunMpirun, one after another
};

// Starts them; what they print goes to the file `log`. The process is mpirun.
pid_t StartMpirun(const Mpirun& run, const std::string& log);
MpirunOutcome AwaitMpirun(pid_t mpirun, const std::string& log);
MpirunOutcome RunMpirun(const Mpirun& run);

// `program`, which is a suite of tests, has to pass those that `filter` selects on every rank.
// `representative` is one of them: a filter that selects nothing passes as well.
void ExpectRanksPass(const Mpirun& run, const std::string& filter,
                     const std::string& representative);

}  // namespace zeroth::testing

#endif  // ZEROTH_CORE_COMM_MPI_TESTING_MPIRUN_H_
