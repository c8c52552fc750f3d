// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which rank this process is, as the program that started it says in the environment.

#ifndef ZEROTH_CORE_COMM_PROCESS_PROCESS_ENVIRONMENT_H_
#define ZEROTH_CORE_COMM_PROCESS_PROCESS_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace zeroth {

// Read from, in this order:
// - torchrun and Kubernetes operators: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE;
// - mpirun (Open MPI): OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE;
// - mpiexec (MPICH, Intel MPI): PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS, unless srun
//   has set them for the ranks that it says itself;
// - srun: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NTASKS_PER_NODE, within a step;
// - none of them: this process is the only rank.
//
// Where rank 0 is met: MASTER_ADDR and MASTER_PORT. Without them, ranks of one node meet on
// 127.0.0.1 at kDefaultMasterPort, and those of srun on the first node of SLURM_STEP_NODELIST, at a
// port made of the job's number. ZEROTH_STORE_PORT overrides the port alone: torchrun may itself
// listen on MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True), and the default then is the next one.
// ZEROTH_RENDEZVOUS_FILE names a file on a file system that all ranks share, through which rank 0
// tells the others an address of its own choosing; it overrides all of these. Ranks that mpirun or
// mpiexec has started on several nodes ask MPI.
//
// By what ranks tell their own job from others that come to the same port: the launcher's number of
// the job, if it gives one to all ranks (TORCHELASTIC_RUN_ID unless it is "none", on one node with
// TORCHELASTIC_RESTART_COUNT; PMIX_NAMESPACE; SLURM_JOB_ID and SLURM_STEP_ID), and a secret, if
// ZEROTH_JOB_SECRET holds one. Where rank 0 chooses its address, it also chooses a number and a
// secret of its own, and sends them along.
struct ProcessEnvironment {
  static constexpr int kDefaultMasterPort = 29500;

  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        // among the processes of this node
  int local_world_size = 1;  // how many these are; 0 if not told
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: any, of a world of one rank or with a rendezvous file
  std::string rendezvous_file;
  bool address_by_launcher = false;  // LauncherAddressExchange() knows where
  std::string job_id;
  std::string job_secret;
  std::string launcher;  // "torchrun", "mpirun", "mpiexec", "srun" or "none": for messages

  // False for a process that stands alone, or whose launcher is none of the above.
  bool HasLauncher() const;

  // The value of an environment variable, or none.
  using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

  // InvalidArgument names the variable that is missing, is no number, or contradicts another one.
  static absl::StatusOr<ProcessEnvironment> Read(const Lookup& lookup);
  // Of this process.
  static absl::StatusOr<ProcessEnvironment> Read();
  // The same without where rank 0 is met.
  static absl::StatusOr<ProcessEnvironment> ReadRanks(const Lookup& lookup);
  static absl::StatusOr<ProcessEnvironment> ReadRanks();
  // local_world_size alone, for LauncherRegistration.
  static absl::StatusOr<int> ReadLocalWorldSize();
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_PROCESS_ENVIRONMENT_H_
