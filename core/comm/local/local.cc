// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local.h"

#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/comm/local/local_communicator.h"
#include "zeroth/core/comm/local/local_group.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {
namespace {

absl::Status CheckOptions(const LaunchOptions& options) {
  if (options.world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("world_size is ", options.world_size, ", expected at least 1 rank"));
  }
  if (options.reduction != "tree") {
    return absl::InvalidArgumentError(absl::StrCat("reduction is '", options.reduction,
                                                   "', but the local back end has only 'tree'"));
  }
  return CheckLaunchOptions(options);
}

void RunRank(const std::shared_ptr<LocalGroup>& group, int rank, const RankMain& rank_main) {
  LocalCommunicator communicator({group, rank});
  const absl::Status status = RunRankMain(rank_main, communicator);
  group->world().RankReturned(rank, status);
}

}  // namespace

absl::Status RunLocalRanks(const LaunchOptions& options, const RankMain& rank_main) {
  if (absl::Status checked = CheckOptions(options); !checked.ok()) return checked;
  const auto world = std::make_shared<WorldState>(options.world_size, options.timeout);
  const auto group = LocalGroup::CreateWorldGroup(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.world_size; ++rank) {
    try {
      threads.emplace_back(RunRank, std::cref(group), rank, std::cref(rank_main));
    } catch (const std::system_error& error) {
      world->RankReturned(rank, absl::ResourceExhaustedError(
                                    absl::StrCat("cannot start a thread for rank ", rank, " of ",
                                                 options.world_size, ": ", error.what())));
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  return world->RootCause();
}

absl::Status RunLocalRanks(int world_size, const RankMain& rank_main) {
  LaunchOptions options;
  options.world_size = world_size;
  return RunLocalRanks(options, rank_main);
}

namespace {
const LauncherRegistration registration("local", [](const LaunchOptions& options,
                                                    const RankMain& rank_main) {
  return RunLocalRanks(options, rank_main);
});
}  // namespace

}  // namespace zeroth
