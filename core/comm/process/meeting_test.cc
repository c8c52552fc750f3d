// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests worlds whose ranks learn the address of rank 0 from their launcher. One test has all cases,
// because it starts without an exchange and a program can register one only once.

#include "zeroth/core/comm/process/meeting.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/process/testing/test_environment.h"

namespace zeroth {
namespace {

ProcessEnvironment EnvironmentOf(int rank, int world_size) {
  ProcessEnvironment environment = testing::TestEnvironment(rank, world_size);
  environment.address_by_launcher = true;
  return environment;
}

std::vector<absl::Status> JoinAll(int size) {
  std::vector<absl::Status> statuses(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto world = ProcessWorld::Join(EnvironmentOf(rank, size), LaunchOptions(), "test");
      statuses[static_cast<size_t>(rank)] =
          world.ok() ? (*world)->Return((*world)->Meet(kWorldGroup).status()) : world.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(AddressExchangeTest, RanksMeetWhereRankZeroSays) {
  for (const absl::Status& status : JoinAll(2)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "MASTER_ADDR")) << status;
  }

  using Answer = absl::StatusOr<std::string>;
  auto promise = std::make_unique<std::promise<Answer>>();
  std::shared_future<Answer> future = promise->get_future().share();
  const AddressExchangeRegistration registration([&](const ProcessEnvironment& environment,
                                                     const Answer& own,
                                                     const LaunchOptions&) -> Answer {
    if (environment.rank == 0) promise->set_value(own);
    return future.get();
  });
  for (const absl::Status& status : JoinAll(3)) EXPECT_TRUE(status.ok()) << status;

  // An invalid address is not followed.
  promise = std::make_unique<std::promise<Answer>>();
  future = promise->get_future().share();
  promise->set_value(std::string("nowhere"));
  const absl::Status lost =
      ProcessWorld::Join(EnvironmentOf(1, 2), LaunchOptions(), "test").status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_TRUE(absl::StrContains(lost.message(), "'nowhere'")) << lost;
}

}  // namespace
}  // namespace zeroth
