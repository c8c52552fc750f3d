// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Starts ranks with a back end that is chosen by name.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

struct LaunchOptions {
  // The number of ranks to start. If a launcher starts the ranks (see WorldSize), this must be 0 or
  // the launcher's world size.
  int world_size = 1;
  // How long a rank waits in a collective for the others before it reports which of them are
  // missing.
  absl::Duration timeout = absl::Minutes(10);
  // How reductions over a network add: "tree" as communicator.h says; "nccl" leaves floating-point
  // sums to NCCL, whose order and rounding are its own.
  std::string reduction = "tree";
  // Whether the back end nccl gathers by the device's copy engines, which leaves the SMs to
  // compute: "on", "off", or "auto" (if it can).
  std::string nccl_copy_engine = "auto";
  // What happens if this process has not left a broken world within 60 seconds, because a call of
  // MPI or NCCL cannot be stopped, or because a rank's own work does not return. true: it prints
  // one line on standard error that says where it hangs, and ends with exit code 1 (_Exit, so that
  // no destructor runs), which tells the launcher and frees what it holds. false: it prints that
  // line and stays; Launch may then never return, and this rank keeps its memory, its device and
  // its connections until the caller ends the process. The other ranks have the world's error
  // either way. Of no effect where ranks are threads (local).
  bool ends_stuck_process = true;
};

// The main function of a rank. `world` is valid until the call returns.
using RankMain = std::function<absl::Status(Communicator& world)>;

// Runs `rank_main` once per rank of this process, and returns when all ranks have returned: OK if
// all succeeded, otherwise the error of the rank that failed first, with its number. A rank that
// returns an error (or throws) breaks the world for the others, so that they return that error
// instead of waiting.
using Launcher = std::function<absl::Status(const LaunchOptions&, const RankMain&)>;

// The ranks that an external launcher has started (torchrun, mpirun, srun).
struct StartedRanks {
  int world_size = 1;
  int local_world_size = 0;  // ranks on this machine; 0: unknown
};
using StartedRanksSource = std::function<absl::StatusOr<StartedRanks>()>;

// For launchers: InvalidArgument for an invalid timeout or option.
absl::Status CheckLaunchOptions(const LaunchOptions& options);
// Like CheckLaunchOptions, for a back end that does not support NCCL's options.
absl::Status CheckLaunchOptionsWithoutNccl(const LaunchOptions& options,
                                           absl::string_view back_end);
// For launchers: returns the result of `rank_main`, or an error for an exception that it throws.
absl::Status RunRankMain(const RankMain& rank_main, Communicator& world);

// Back ends by name. Thread-safe.
class LauncherRegistry {
 public:
  // Returns the ranks that an external launcher has started for back end `name`; std::nullopt if
  // the back end starts its ranks itself.
  static absl::StatusOr<std::optional<StartedRanks>> Started(absl::string_view name);
  // Runs the ranks (see Launcher). NotFound lists the back ends that are linked in.
  static absl::Status Launch(absl::string_view name, const LaunchOptions& options,
                             const RankMain& rank_main);
  // Sorted.
  static std::vector<std::string> Names();
};

// Put one at namespace scope in the back end's .cc, in a target with alwayslink. `started` is for
// back ends whose ranks an external launcher starts. A second registration of a name is a bug and
// aborts.
struct LauncherRegistration {
  LauncherRegistration(absl::string_view name, Launcher launcher,
                       StartedRanksSource started = nullptr);
};

}  // namespace zeroth
