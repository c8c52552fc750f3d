// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For tests whose ranks are threads or child processes of the test.

#pragma once

#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth::testing {

// The environment of a rank on one node, as a launcher describes it, without a meeting place.
inline ProcessEnvironment TestEnvironment(int rank, int world_size) {
  ProcessEnvironment environment;
  environment.rank = rank;
  environment.world_size = world_size;
  environment.local_rank = rank;
  environment.local_world_size = world_size;
  environment.launcher = "test";
  return environment;
}
// The same for ranks that meet through the rendezvous file `file`.
inline ProcessEnvironment TestEnvironment(int rank, int world_size, const std::string& file) {
  ProcessEnvironment environment = TestEnvironment(rank, world_size);
  environment.rendezvous_file = file;
  return environment;
}

// Returns the path of a new rendezvous file, so that concurrent tests need no ports.
inline std::string TestRendezvousFile() {
  static std::atomic<int> count{0};
  return absl::StrCat(::testing::TempDir(), "/meet.", getpid(), ".", ++count);
}

}  // namespace zeroth::testing
