// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// This process's rank, and where rank 0 listens, as the launcher says in the environment.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace zeroth {

// The rank is read from, in this order:
// - torchrun and Kubernetes operators: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE;
// - mpirun (Open MPI): OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE;
// - mpiexec (MPICH, Intel MPI): PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS, unless srun
//   has set the same ranks in these and in its own variables;
// - srun: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE (of the node
//   SLURM_NODEID; or else SLURM_NTASKS_PER_NODE), within a step;
// - none of them: this process is the only rank.
//
// Rank 0 listens at MASTER_ADDR and MASTER_PORT. Without them, ranks of one node meet on 127.0.0.1
// at kDefaultMasterPort, and ranks of srun on the first node of SLURM_STEP_NODELIST, at a port that
// follows from the job's number. ZEROTH_STORE_PORT overrides the port alone. If torchrun itself
// listens on MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True), the default is the next port.
// ZEROTH_RENDEZVOUS_FILE overrides all of these. It names a file on a shared file system, in which
// rank 0 writes an address that it chooses. Ranks that mpirun or mpiexec has started on several
// nodes ask MPI.
//
// Ranks tell their own job from others on the same port by the launcher's number of the job, if it
// gives one to all ranks, and by the secret in ZEROTH_JOB_SECRET, if it is set. The numbers are
// TORCHELASTIC_RUN_ID unless it is "none" (on one node with TORCHELASTIC_RESTART_COUNT),
// PMIX_NAMESPACE, and SLURM_JOB_ID with SLURM_STEP_ID. Where rank 0 chooses its address, it also
// chooses a number and a secret, and tells them to the other ranks.
struct ProcessEnvironment {
  static constexpr int kDefaultMasterPort = 29500;

  int rank = 0;
  int world_size = 1;
  int local_rank = 0;        // among the processes of this node
  int local_world_size = 1;  // processes of this node; 0 if unknown
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: any; in a world of one rank, or with a rendezvous file
  std::string rendezvous_file;
  bool address_by_launcher = false;  // MPI says where (AddressExchange in meeting.h)
  std::string job_id;
  std::string job_secret;
  std::string launcher;  // "torchrun", "mpirun", "mpiexec", "srun" or "none": for messages

  // False if no launcher, or an unknown one, has started the process.
  bool HasLauncher() const;

  // Returns the value of an environment variable, or none.
  using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

  // Looks up this process's environment.
  static std::optional<std::string> Variable(const std::string& name);

  // InvalidArgument names the variable that is missing, is not a number, or contradicts another
  // one.
  static absl::StatusOr<ProcessEnvironment> Read(const Lookup& lookup = Variable);
  // Like Read, but without the address of rank 0 and the job's key.
  static absl::StatusOr<ProcessEnvironment> ReadRanks(const Lookup& lookup = Variable);
};

}  // namespace zeroth
