// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Ranks of one's own program: how they are started, and what each of them works with.

#ifndef ZEROTH_API_RANK_H_
#define ZEROTH_API_RANK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

struct RankOptions {
  std::string device = "cpu";  // a registered device type
  // Threads of each rank's kernels (CPU). 0: the machine's cores divided by `ranks_on_machine`.
  int threads = 0;
  int ranks_on_machine = 0;  // 0: all ranks of the world
  int64_t memory_limit = 0;  // in bytes, of a rank's allocator; 0: none
  // DeviceOptions::bits_of_any_team.
  bool bits_of_any_team = false;
  KernelOptions kernels;
};

// Threads that each of `ranks_on_machine` ranks has if nobody says otherwise; at least one.
int DefaultThreadsPerRank(int ranks_on_machine);

// One rank: its place in the world, its device, bound to the calling thread, and the kernels on the
// device's compute stream. Used by that thread only.
class Rank {
 public:
  // Opens a device of its own. `world` outlives the rank. NotFound lists the device types that are
  // linked in; Unimplemented names a kernel option that the device does not have.
  static absl::StatusOr<std::unique_ptr<Rank>> Open(Communicator& world,
                                                    const RankOptions& options = {});
  // On a device that is open already, bound, and outlives the rank.
  static absl::StatusOr<std::unique_ptr<Rank>> Open(Communicator& world, Device& device,
                                                    const KernelOptions& options = {});

  int index() const { return world_.rank(); }
  int world_size() const { return world_.size(); }
  Communicator& world() { return world_; }
  Device& device() { return device_; }
  Kernels& kernels() { return *kernels_; }

 private:
  Rank(Communicator& world, std::shared_ptr<Device> owned, Device& device)
      : world_(world), owned_(std::move(owned)), device_(device) {}

  Communicator& world_;
  std::shared_ptr<Device> owned_;  // null for a device of somebody else's
  Device& device_;
  std::unique_ptr<Kernels> kernels_;
};

struct RunOptions {
  std::string comm = "local";  // a registered back end: "local", "mpi", "nccl"
  LaunchOptions launch;
  RankOptions rank;
};

// Runs `train` once for each rank of this process: with "local" ranks are threads, and
// launch.world_size says how many; with the others a launcher (mpirun, torchrun, srun) has started
// this process as one of them. Returns when all are done: the error of the rank that failed first.
absl::Status RunRanks(const RunOptions& options, const std::function<absl::Status(Rank&)>& train);
// The same with `world_size` threads on the CPU. Prints an error; 0, or 1 after one: for main.
int RunRanks(int world_size, const std::function<absl::Status(Rank&)>& train);

}  // namespace zeroth

#endif  // ZEROTH_API_RANK_H_
