// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/faults/faulty_trainer.h"

namespace zeroth::testing {

Outcome ByThreads(int ranks, const Flags& flags, const std::string& fault) {
  const fs::path log = Scratch() / "log";
  const int exit_code = Wait(Start(With(flags, {"--world_size=" + std::to_string(ranks)}), log, "",
                                   {{"ZEROTH_FAULT", fault}}, kFaultyTrainer));
  return {exit_code, Logs(log), Read(ErrorLog(log))};
}

MpirunOutcome ByProcesses(int ranks, const Flags& flags, const std::string& fault) {
  Mpirun run;
  run.ranks = ranks;
  run.program = {fs::absolute(kFaultyTrainer).string(), "--comm=mpi"};
  run.program.insert(run.program.end(), flags.begin(), flags.end());
  run.environment = {{"ZEROTH_FAULT", fault}};
  return RunMpirun(run);
}

}  // namespace zeroth::testing
