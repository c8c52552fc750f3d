// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/process_environment.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Lookup = ProcessEnvironment::Lookup;

constexpr int kMostPort = 65535;
constexpr char kNoLauncher[] = "none";

// The variables of one kind of launcher.
struct Names {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kMpirun = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpiexec = {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                            "MPI_LOCALNRANKS"};
constexpr Names kSrun = {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                         "SLURM_NTASKS_PER_NODE"};

absl::StatusOr<std::optional<int>> ReadNumber(const Lookup& lookup, const char* name, int least,
                                              int most) {
  const std::optional<std::string> text = lookup(name);
  if (!text.has_value()) return std::optional<int>();
  int value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < least || value > most) {
    return InvalidArgument("environment variable ", name, " is '", *text,
                           "', expected a number from ", least, " to ", most);
  }
  return std::optional<int>(value);
}

absl::StatusOr<int> RequireNumber(const Lookup& lookup, const Names& names, const char* name,
                                  int least, int most) {
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> value, ReadNumber(lookup, name, least, most));
  if (value.has_value()) return *value;
  return InvalidArgument("environment variable ", name, " is missing while others of ",
                         names.launcher, " are set; expected all of ", names.rank, ", ",
                         names.world_size, " and, with several processes on a node, ",
                         names.local_rank);
}

constexpr char kStepTasks[] = "SLURM_STEP_TASKS_PER_NODE";

// Returns the number of ranks on this node by srun's counts for the step: 3 on node 2 of "8(x2),3".
// std::nullopt if srun does not say.
std::optional<int> TasksOfStep(const Lookup& lookup) {
  int node = 0;
  if (!absl::SimpleAtoi(lookup("SLURM_NODEID").value_or(""), &node)) return std::nullopt;
  const std::string counts = lookup(kStepTasks).value_or("");
  for (absl::string_view item : absl::StrSplit(counts, ',')) {
    const size_t times_begin = std::min(item.find("(x"), item.size());
    absl::string_view times_text = item.substr(times_begin);
    int tasks = 0;
    int times = 1;
    if (!absl::SimpleAtoi(item.substr(0, times_begin), &tasks)) return std::nullopt;
    if (absl::ConsumePrefix(&times_text, "(x") &&
        (!absl::ConsumeSuffix(&times_text, ")") || !absl::SimpleAtoi(times_text, &times))) {
      return std::nullopt;
    }
    if (node < times) return tasks;
    node -= times;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<int>> ReadLocalWorldSize(const Lookup& lookup, const Names& names,
                                                      int world_size) {
  // Under srun, the step's counts come first. SLURM_NTASKS_PER_NODE is the fallback: it is the
  // number that the user requested, if any, and may be that of the whole job. A step or its last
  // node may have fewer ranks.
  if (names.launcher == kSrun.launcher) {
    const std::optional<int> tasks = TasksOfStep(lookup);
    if (tasks.has_value() && *tasks >= 1 && *tasks <= world_size) return tasks;
  }
  return ReadNumber(lookup, names.local_world_size, 1, world_size);
}

absl::Status ReadRanks(const Lookup& lookup, const Names& names, ProcessEnvironment& result) {
  constexpr int kMostRanks = 1 << 20;
  result.launcher = names.launcher;
  ZEROTH_ASSIGN_OR_RETURN(result.world_size,
                          RequireNumber(lookup, names, names.world_size, 1, kMostRanks));
  ZEROTH_ASSIGN_OR_RETURN(result.rank,
                          RequireNumber(lookup, names, names.rank, 0, result.world_size - 1));
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> local_rank,
                          ReadNumber(lookup, names.local_rank, 0, result.rank));
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> local_world_size,
                          ReadLocalWorldSize(lookup, names, result.world_size));
  result.local_world_size = local_world_size.value_or(0);
  result.local_rank = local_rank.value_or(0);
  if (local_world_size.has_value() && result.local_rank >= *local_world_size) {
    return InvalidArgument("environment variables contradict each other: ", names.local_rank,
                           " is ", result.local_rank, ", but this machine has ", *local_world_size,
                           " ranks (", names.local_world_size,
                           names.launcher == kSrun.launcher ? absl::StrCat(" or ", kStepTasks) : "",
                           ")");
  }
  return absl::OkStatus();
}

// Returns the first host of a list as Slurm writes it: "node07" of "node[07-09,12],login".
std::string FirstHost(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  std::string host = list.substr(0, end);
  if (end != std::string::npos && list[end] == '[') {
    const size_t number_end = list.find_first_of(",-]", end);
    absl::StrAppend(&host, list.substr(end + 1, number_end - end - 1));
    // "rack1-[1-2]-ib": what follows the brackets belongs to the name.
    const size_t close = list.find(']', end);
    if (close != std::string::npos) {
      absl::StrAppend(&host, list.substr(close + 1, list.find(',', close) - close - 1));
    }
  }
  return host;
}

absl::Status ReadMeetingPlace(const Lookup& lookup, ProcessEnvironment& result) {
  result.rendezvous_file = lookup("ZEROTH_RENDEZVOUS_FILE").value_or("");
  if (!result.rendezvous_file.empty() || result.world_size == 1) return absl::OkStatus();
  const bool is_slurm = result.launcher == kSrun.launcher;

  if (const auto address = lookup("MASTER_ADDR"); address.has_value() && !address->empty()) {
    result.master_addr = *address;
  } else if (const auto nodes = lookup("SLURM_STEP_NODELIST"); is_slurm && nodes.has_value()) {
    result.master_addr = FirstHost(*nodes);
  } else if (result.local_world_size != result.world_size &&
             (result.launcher == kMpirun.launcher || result.launcher == kMpiexec.launcher)) {
    result.address_by_launcher = true;
    return absl::OkStatus();
  } else if (result.local_world_size != result.world_size) {
    return InvalidArgument(
        "environment variable MASTER_ADDR is missing, and the ", result.world_size,
        " ranks are not known to be on one node (", result.launcher, " says ",
        result.local_world_size == 0 ? std::string("nothing about it")
                                     : absl::StrCat(result.local_world_size, " are on this one"),
        "); set it to the name or address of rank 0's node on all ranks, or "
        "ZEROTH_RENDEZVOUS_FILE to a file that all share");
  }

  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> own_port,
                          ReadNumber(lookup, "ZEROTH_STORE_PORT", 1, kMostPort));
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> port,
                          ReadNumber(lookup, "MASTER_PORT", 1, kMostPort - 1));
  if (own_port.has_value()) {
    result.master_port = *own_port;
  } else if (port.has_value()) {
    const bool taken = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    result.master_port = *port + (taken ? 1 : 0);
  } else {
    result.master_port = ProcessEnvironment::kDefaultMasterPort;
    if (is_slurm) {
      // Jobs share nodes; Slurm's numbers keep them apart.
      ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> job,
                              ReadNumber(lookup, "SLURM_JOB_ID", 0, 2147483647));
      result.master_port = 20000 + job.value_or(0) % 10000;
    }
  }
  return absl::OkStatus();
}

// Returns the job's number, the same on all its ranks; empty if the launcher gives none.
std::string ReadJobId(const Lookup& lookup, const ProcessEnvironment& environment) {
  const std::string& launcher = environment.launcher;
  if (launcher == kTorchrun.launcher) {
    const std::string run = lookup("TORCHELASTIC_RUN_ID").value_or("");
    // "none" is torchrun's value without --rdzv-id, the same for all jobs.
    if (run.empty() || run == "none") return "";
    const auto restart = lookup("TORCHELASTIC_RESTART_COUNT");
    // Each node's agent counts only the failures of its own ranks.
    const bool one_agent = environment.local_world_size == environment.world_size;
    return restart.has_value() && one_agent ? absl::StrCat(run, ".", *restart) : run;
  }
  if (launcher == kMpirun.launcher) return lookup("PMIX_NAMESPACE").value_or("");
  if (launcher != kSrun.launcher) return "";
  // Each part of a heterogeneous job has its own number.
  const auto whole = lookup("SLURM_HET_JOB_ID");
  const auto job = whole.has_value() ? whole : lookup("SLURM_JOB_ID");
  return absl::StrCat(job.value_or(""), ".", lookup("SLURM_STEP_ID").value_or(""));
}

// Batch scripts and the shells of salloc have SLURM_PROCID too, but only steps that srun starts are
// ranks.
bool IsSlurmStep(const Lookup& lookup) {
  const std::optional<std::string> step = lookup("SLURM_STEP_ID");
  return lookup(kSrun.rank).has_value() && step.has_value() && *step != "4294967291" &&
         *step != "batch" && *step != "4294967290" && *step != "interactive";
}

// True if srun itself starts the ranks. mpiexec may use srun to start one process on each node,
// which then starts the ranks; and srun may set mpiexec's variables (PMI) for the ranks that it
// starts.
bool SrunStartsTheRanks(const Lookup& lookup) {
  if (!IsSlurmStep(lookup)) return false;
  const std::optional<std::string> rank = lookup(kMpiexec.rank);
  return !rank.has_value() ||
         (rank == lookup(kSrun.rank) && lookup(kMpiexec.world_size) == lookup(kSrun.world_size));
}

const Names* FindLauncher(const Lookup& lookup) {
  const auto set = [&](const Names& names) {
    return lookup(names.rank).has_value() || lookup(names.world_size).has_value();
  };
  if (set(kTorchrun)) return &kTorchrun;
  if (set(kMpirun)) return &kMpirun;
  if (SrunStartsTheRanks(lookup)) return &kSrun;
  return set(kMpiexec) ? &kMpiexec : nullptr;
}

}  // namespace

bool ProcessEnvironment::HasLauncher() const { return launcher != kNoLauncher; }

std::optional<std::string> ProcessEnvironment::Variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

absl::StatusOr<ProcessEnvironment> ProcessEnvironment::ReadRanks(const Lookup& lookup) {
  ProcessEnvironment result;
  result.launcher = kNoLauncher;
  const Names* const names = FindLauncher(lookup);
  if (names != nullptr) ZEROTH_RETURN_IF_ERROR(zeroth::ReadRanks(lookup, *names, result));
  return result;
}

absl::StatusOr<ProcessEnvironment> ProcessEnvironment::Read(const Lookup& lookup) {
  ZEROTH_ASSIGN_OR_RETURN(ProcessEnvironment result, ReadRanks(lookup));
  ZEROTH_RETURN_IF_ERROR(ReadMeetingPlace(lookup, result));
  result.job_id = ReadJobId(lookup, result);
  result.job_secret = lookup("ZEROTH_JOB_SECRET").value_or("");
  return result;
}

}  // namespace zeroth
