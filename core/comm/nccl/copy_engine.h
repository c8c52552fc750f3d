// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which groups gather by the copy engines of their devices: decided once, before communicators are
// made, by all ranks alike from what each can do. No calls of the library in here.

#ifndef ZEROTH_CORE_COMM_NCCL_COPY_ENGINE_H_
#define ZEROTH_CORE_COMM_NCCL_COPY_ENGINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth::nccl {

// What one rank has. Versions as the libraries number them: NCCL 2.28.9 is 22809, CUDA 13.0 is
// 13000.
struct RankAbility {
  std::string mode;          // LaunchOptions::nccl_copy_engine
  std::string host;          // the machine's name
  std::string boot;          // which of the machines of that name, as /proc tells
  int compiled_version = 0;  // of NCCL's header
  int library_version = 0;   // of the library that runs
  int driver_version = 0;    // the CUDA version that the driver knows
  std::string memory_error;  // of memory that can be registered; empty: there is some

  std::string Serialize() const;
  // Internal if the bytes are none.
  static absl::StatusOr<RankAbility> Parse(absl::string_view bytes);
};

// NCCL gathers by copy engines where a communicator is told to use no multiprocessors if it can
// (CTA policy zero, from 2.28 on), all its ranks are on one machine, and the memory is registered
// as a symmetric window. Whether NVLink connects all devices, which that takes too, the library
// finds out and keeps to itself: without, it gathers by kernels.
class CopyEnginePlan {
 public:
  // Nobody does.
  CopyEnginePlan() = default;
  // `ranks` of the world, in their order. InvalidArgument if their modes differ; FailedPrecondition
  // under "on" if some rank cannot, naming it and what it has.
  static absl::StatusOr<CopyEnginePlan> Make(std::vector<RankAbility> ranks);

  // Whether memory is to be allocated so that it can be registered.
  bool enabled() const { return obstacle_.empty() && !ranks_.empty(); }
  // Whether a group of these ranks registers memory. Groups of one do not, having nothing to send.
  bool Registers(const std::vector<int>& world_ranks) const;
  // The same of a group of gathers; FailedPrecondition under "on" for groups of several machines,
  // naming two ranks.
  absl::StatusOr<bool> GathersByCopyEngine(const std::vector<int>& world_ranks) const;
  // One line: which way such a group gathers, and why. Empty if nobody is to be told: for groups of
  // one, and under "off".
  std::string Note(const std::vector<int>& world_ranks) const;

 private:
  // Why the group cannot; empty if it can.
  std::string ObstacleOf(const std::vector<int>& world_ranks) const;

  std::vector<RankAbility> ranks_;
  std::string obstacle_;  // to all groups
};

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_COPY_ENGINE_H_
