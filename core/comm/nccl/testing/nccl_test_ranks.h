// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs ranks of the NCCL back end as threads of one test. NCCL needs a GPU for each rank; with the
// emulated NCCL they share one.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/nccl/nccl.h"
#include "zeroth/core/comm/process/node.h"
#include "zeroth/core/comm/process/testing/test_environment.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::testing {

// Expects the same result from every rank, and returns it. `nodes` has the name of each rank's
// node; empty: all are on this machine.
inline absl::Status RunNcclNodes(const LaunchOptions& options, const RankMain& rank_main,
                                 const std::vector<std::string>& nodes) {
  const std::string file = TestRendezvousFile();
  std::vector<absl::Status> statuses(static_cast<size_t>(options.world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      if (!nodes.empty()) SetNodeNameForTest(nodes[static_cast<size_t>(rank)]);
      statuses[static_cast<size_t>(rank)] =
          RunNcclRank(TestEnvironment(rank, options.world_size, file), options, rank_main);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses.front());
  return statuses.front();
}

// A Launcher.
inline absl::Status RunNcclThreads(const LaunchOptions& options, const RankMain& rank_main) {
  return RunNcclNodes(options, rank_main, {});
}

// Names the nodes of ranks, of which `sizes` consecutive ones share a node each.
inline std::vector<std::string> NodesOf(const std::vector<int>& sizes) {
  std::vector<std::string> nodes;
  for (size_t node = 0; node < sizes.size(); ++node) {
    nodes.insert(nodes.end(), static_cast<size_t>(sizes[node]), absl::StrCat("node", node));
  }
  return nodes;
}

// Returns a rank's main function that calls `function` with a device and a stream.
inline RankMain OnCuda(const std::function<absl::Status(TestRank&)>& function) {
  return [function](Communicator& world) -> absl::Status {
    DeviceOptions options;
    options.index = world.device_index();
    options.transport_memory = world.memory_source();
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cuda", options));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device->CreateStream("comm"));
    TestRank rank{world, *device, *stream};
    return function(rank);
  };
}

// Makes two all-reduces, for tests in which a rank fails after the first.
inline absl::Status TwoAllReduces(TestRank& rank) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer, ToDevice(rank.device, std::vector<float>(4, 1.0f)));
  for (const char* label : {"h.0", "h.1"}) {
    ZEROTH_RETURN_IF_ERROR(rank.world.AllReduce(buffer, ReduceOp::kSum, rank.stream, label));
    ZEROTH_RETURN_IF_ERROR(rank.stream.Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace zeroth::testing
