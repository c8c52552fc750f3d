// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Starts two ranks as threads of this process.

#include <iostream>

#include "zeroth/core/comm/launcher.h"

int main() {
  zeroth::LaunchOptions options;
  options.world_size = 2;
  const absl::Status status = zeroth::LauncherRegistry::Launch(
      "local", options, [](zeroth::Communicator& world) {
        if (world.rank() == 0) std::cout << world.name() << "\n";
        return absl::OkStatus();
      });
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
