// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The ranks of a program: starts them, and gives each its device and kernels.

#pragma once

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
  // 0: in RunRanks, the number that the launcher (mpirun, torchrun, srun) reports; otherwise, or if
  // it reports none, all ranks of the world.
  int ranks_on_machine = 0;
  int64_t memory_limit = 0;  // in bytes, of a rank's allocator; 0: none
  // See DeviceOptions::bits_of_any_team.
  bool bits_of_any_team = false;
  KernelOptions kernels;
};

// Returns the default number of threads per rank if `ranks_on_machine` ranks share the machine; at
// least one.
int DefaultThreadsPerRank(int ranks_on_machine);

// One rank: its communicator, its device, which is bound to the calling thread, and kernels on the
// device's compute stream. Used by that thread only.
class Rank {
 public:
  // Opens a device. `world` outlives the rank. NotFound lists the device types that are linked in;
  // Unimplemented names a kernel option that the device does not have.
  static absl::StatusOr<std::unique_ptr<Rank>> Open(Communicator& world,
                                                    const RankOptions& options = {});
  // Uses a device that is open and bound already, and outlives the rank.
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
  std::shared_ptr<Device> owned_;  // nullptr if the caller owns the device
  Device& device_;
  std::unique_ptr<Kernels> kernels_;
};

struct RunOptions {
  std::string comm = "local";  // a registered back end: "local", "mpi", "nccl"
  LaunchOptions launch;
  RankOptions rank;
};

// Runs `train` once for each rank of this process. With "local", ranks are threads, and
// launch.world_size is their number. With other back ends, a launcher (mpirun, torchrun, srun) has
// started this process as one of the ranks. Returns when all ranks are done, with the error of the
// rank that failed first.
absl::Status RunRanks(const RunOptions& options, const std::function<absl::Status(Rank&)>& train);
// A shortcut for main: runs `train` on `world_size` threads on the CPU. Returns 0, or prints the
// error and returns 1.
int RunRanks(int world_size, const std::function<absl::Status(Rank&)>& train);

}  // namespace zeroth
