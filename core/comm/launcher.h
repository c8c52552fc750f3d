// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How ranks come into being: by back end, chosen by name.

#ifndef ZEROTH_CORE_COMM_LAUNCHER_H_
#define ZEROTH_CORE_COMM_LAUNCHER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/comm/communicator.h"

namespace zeroth {

struct LaunchOptions {
  int world_size =
      1;  // ranks to start; back ends whose launcher decides (mpirun) refuse a different number
  // How long a rank waits in a collective for the others before it reports which of them are
  // missing.
  absl::Duration timeout = absl::Minutes(10);
};

// What a rank runs. `world` lives as long as the call.
using RankMain = std::function<absl::Status(Communicator& world)>;

// Runs `rank_main` once per rank of this process and returns when all have returned: OK if all did,
// otherwise the error of the rank that failed first, with its number. A rank that returns an error
// (or throws) breaks the world for the others, so that they return that error instead of waiting.
using Launcher = std::function<absl::Status(const LaunchOptions&, const RankMain&)>;

// Back ends by name. Thread-safe.
class LauncherRegistry {
 public:
  static void Register(absl::string_view name, Launcher launcher);
  // NotFound lists the back ends that are linked in.
  static absl::Status Launch(absl::string_view name, const LaunchOptions& options,
                             const RankMain& rank_main);
  // Sorted.
  static std::vector<std::string> Names();
};

// Put one at namespace scope in the back end's .cc, in a target with alwayslink.
struct LauncherRegistration {
  LauncherRegistration(absl::string_view name, Launcher launcher) {
    LauncherRegistry::Register(name, std::move(launcher));
  }
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LAUNCHER_H_
