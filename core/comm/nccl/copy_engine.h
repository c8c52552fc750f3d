// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Decides which groups gather by their devices' copy engines. All ranks make the same decision
// once, before they create communicators, from the capabilities of all ranks. Nothing here calls
// NCCL.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth::nccl {

// One rank's libraries and device, which decide whether it can use copy engines. Versions are in
// the libraries' own numbers: NCCL 2.28.9 is 22809, CUDA 13.0 is 13000.
struct RankCapabilities {
  std::string mode;          // LaunchOptions::nccl_copy_engine
  std::string host;          // the machine's name
  std::string boot;          // the machine's boot id, which tells machines of one name apart
  int compiled_version = 0;  // of NCCL's header
  int library_version = 0;   // of the loaded NCCL library
  int driver_version = 0;    // the CUDA version that the driver supports
  std::string memory_error;  // why no memory can be registered; empty if some can

  std::string Serialize() const;
  // Internal if the bytes are not a RankCapabilities.
  static absl::StatusOr<RankCapabilities> Parse(absl::string_view bytes);
};

// NCCL gathers by copy engines if the communicator asks for it (CTA policy zero, from 2.28 on), all
// its ranks are on one machine, the memory is registered as a symmetric window, and NVLink connects
// all devices. NCCL does not tell whether NVLink does; without it, NCCL gathers by kernels.
class CopyEnginePlan {
 public:
  // A plan without copy engines.
  CopyEnginePlan() = default;
  // `ranks` are all ranks of the world, in order. InvalidArgument if their modes differ.
  // FailedPrecondition if the mode is "on" and some rank cannot, naming the rank and the reason.
  static absl::StatusOr<CopyEnginePlan> Make(std::vector<RankCapabilities> ranks);

  // True if memory has to be allocated such that it can be registered.
  bool enabled() const { return obstacle_.empty() && !ranks_.empty(); }
  // True if a group of these ranks registers memory. A group of one rank does not.
  bool Registers(const std::vector<int>& world_ranks) const;
  // True if a group of these ranks gathers by copy engines. FailedPrecondition if the mode is "on"
  // and the group spans machines, naming two ranks.
  absl::StatusOr<bool> GathersByCopyEngine(const std::vector<int>& world_ranks) const;
  // Returns one line that says how a group of these ranks gathers, and why. Empty for groups of one
  // rank, and if the mode is "off".
  std::string Note(const std::vector<int>& world_ranks) const;

 private:
  // Returns why the group cannot gather by copy engines; empty if it can.
  std::string ObstacleOf(const std::vector<int>& world_ranks) const;

  std::vector<RankCapabilities> ranks_;
  std::string obstacle_;  // why no group can
};

}  // namespace zeroth::nccl
