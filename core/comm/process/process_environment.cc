// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/process_environment.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Lookup = ProcessEnvironment::Lookup;

constexpr int kMostPort = 65535;

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
constexpr Names kSrun = {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                         "SLURM_NTASKS_PER_NODE"};

absl::StatusOr<std::optional<int>> ReadNumber(const Lookup& lookup, const char* name, int least,
                                              int most) {
  const std::optional<std::string> text = lookup(name);
  if (!text.has_value()) return std::optional<int>();
  int value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < least || value > most) {
    return absl::InvalidArgumentError(absl::StrCat("environment variable ", name, " is '", *text,
                                                   "', expected a number from ", least, " to ",
                                                   most));
  }
  return std::optional<int>(value);
}

absl::StatusOr<int> RequireNumber(const Lookup& lookup, const Names& names, const char* name,
                                  int least, int most) {
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> value, ReadNumber(lookup, name, least, most));
  if (value.has_value()) return *value;
  return absl::InvalidArgumentError(
      absl::StrCat("environment variable ", name, " is missing while others of ", names.launcher,
                   " are set; expected all of ", names.rank, ", ", names.world_size,
                   " and, with several processes on a node, ", names.local_rank));
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
                          ReadNumber(lookup, names.local_world_size, 1, result.world_size));
  result.local_world_size = local_world_size.value_or(0);
  result.local_rank = local_rank.value_or(0);
  if (local_world_size.has_value() && result.local_rank >= *local_world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variables contradict each other: ", names.local_rank, " is ",
                     result.local_rank, ", expected less than ", names.local_world_size,
                     ", which is ", *local_world_size));
  }
  return absl::OkStatus();
}

// The first host of a list as Slurm writes it: "node[07-09,12],login" has node07.
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
  } else if (result.local_world_size != result.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "environment variable MASTER_ADDR is missing, and the ", result.world_size,
        " ranks are not known to be on one node (", result.launcher, " says ",
        result.local_world_size == 0 ? std::string("nothing about it")
                                     : absl::StrCat(result.local_world_size, " are on this one"),
        "); set it to the name or address of rank 0's node on all ranks (mpirun: -x MASTER_ADDR), "
        "or "
        "ZEROTH_RENDEZVOUS_FILE to a file that all share"));
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

}  // namespace

absl::StatusOr<ProcessEnvironment> ProcessEnvironment::Read(const Lookup& lookup) {
  ProcessEnvironment result;
  result.launcher = "none";
  const Names* names = nullptr;
  if (lookup(kTorchrun.rank).has_value() || lookup(kTorchrun.world_size).has_value()) {
    names = &kTorchrun;
  } else if (lookup(kMpirun.rank).has_value() || lookup(kMpirun.world_size).has_value()) {
    names = &kMpirun;
  } else if (lookup(kSrun.rank).has_value() && lookup("SLURM_STEP_ID").has_value()) {
    // Batch scripts have SLURM_PROCID too, but only steps that srun starts are ranks.
    const std::string step = *lookup("SLURM_STEP_ID");
    if (step != "4294967291" && step != "batch") names = &kSrun;
  }
  if (names != nullptr) ZEROTH_RETURN_IF_ERROR(ReadRanks(lookup, *names, result));
  ZEROTH_RETURN_IF_ERROR(ReadMeetingPlace(lookup, result));
  return result;
}

absl::StatusOr<ProcessEnvironment> ProcessEnvironment::Read() {
  return Read([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  });
}

}  // namespace zeroth
