// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/mpi/mpi.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"
#include "zeroth/core/device/device.h"

namespace zeroth::testing {

// Runs `function` as this process's rank of the ranks that mpirun has started, on the CPU.
inline absl::Status RunOnCpu(const std::function<absl::Status(TestRank&)>& function,
                             LaunchOptions options = {}) {
  // The started number of ranks, unless a test says otherwise.
  if (options.world_size == 1) options.world_size = 0;
  return RunMpiRank(options, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device->CreateStream("comm"));
    TestRank rank{world, *device, *stream};
    return function(rank);
  });
}

}  // namespace zeroth::testing
