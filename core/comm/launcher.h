// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How ranks come into being: by back end, chosen by name.

#ifndef ZEROTH_CORE_COMM_LAUNCHER_H_
#define ZEROTH_CORE_COMM_LAUNCHER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

struct LaunchOptions {
  // Ranks to start. Back ends whose ranks another program starts (see WorldSize) take 0, or the
  // number that it says.
  int world_size = 1;
  // How long a rank waits in a collective for the others before it reports which of them are
  // missing.
  absl::Duration timeout = absl::Minutes(10);
  // How back ends over a network reduce: "tree" adds as communicator.h says; "nccl" leaves the sums
  // of floating-point elements to the library, whose order and rounding are its own.
  std::string reduction = "tree";
  // Whether nccl gathers by the device's copy engines, which leaves the multiprocessors to compute:
  // "on", "off", or "auto", where it can.
  std::string nccl_copy_engine = "auto";
};

// What a rank runs. `world` lives as long as the call.
using RankMain = std::function<absl::Status(Communicator& world)>;

// Runs `rank_main` once per rank of this process and returns when all have returned: OK if all did,
// otherwise the error of the rank that failed first, with its number. A rank that returns an error
// (or throws) breaks the world for the others, so that they return that error instead of waiting.
using Launcher = std::function<absl::Status(const LaunchOptions&, const RankMain&)>;

// For a back end whose ranks another program starts (torchrun, mpirun, srun): how many there are,
// in all or on this machine (0: not known).
using WorldSizeSource = std::function<absl::StatusOr<int>()>;

// Helpers of launchers: InvalidArgument for a timeout or a word that makes no sense; and
// `rank_main`'s result, with what it throws made an error.
absl::Status CheckLaunchOptions(const LaunchOptions& options);
absl::Status RunRankMain(const RankMain& rank_main, Communicator& world);

// Back ends by name. Thread-safe.
class LauncherRegistry {
 public:
  static void Register(absl::string_view name, Launcher launcher,
                       WorldSizeSource world_size = nullptr,
                       WorldSizeSource local_world_size = nullptr);
  // The number of ranks that have been started, if `name` has them started by another program.
  static absl::StatusOr<std::optional<int>> WorldSize(absl::string_view name);
  // How many of them share this machine; none if `name` starts its ranks itself, or does not know.
  static absl::StatusOr<std::optional<int>> LocalWorldSize(absl::string_view name);
  // NotFound lists the back ends that are linked in.
  static absl::Status Launch(absl::string_view name, const LaunchOptions& options,
                             const RankMain& rank_main);
  // Sorted.
  static std::vector<std::string> Names();
};

// Put one at namespace scope in the back end's .cc, in a target with alwayslink.
struct LauncherRegistration {
  LauncherRegistration(absl::string_view name, Launcher launcher,
                       WorldSizeSource world_size = nullptr,
                       WorldSizeSource local_world_size = nullptr) {
    LauncherRegistry::Register(name, std::move(launcher), std::move(world_size),
                               std::move(local_world_size));
  }
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LAUNCHER_H_
