// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/launcher.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(LauncherRegistryTest, FindsABackEndThatIsOnlyLinked) {
  std::atomic<int> ranks{0};
  LaunchOptions options;
  options.world_size = 3;
  const absl::Status status = LauncherRegistry::Launch("local", options, [&](Communicator& world) {
    EXPECT_EQ(world.size(), 3);
    ++ranks;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ranks, 3);
}

TEST(LauncherRegistryTest, UnknownNameListsTheKnown) {
  const absl::Status status = LauncherRegistry::Launch(
      "carrier_pigeon", {}, [](Communicator&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "'carrier_pigeon'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "local")) << status;
}

TEST(LauncherRegistryTest, NamesAreSorted) {
  const auto launcher = [](const LaunchOptions&, const RankMain&) { return absl::OkStatus(); };
  const LauncherRegistration zzz("zzz", launcher);
  const LauncherRegistration aaa("aaa", launcher);
  const std::vector<std::string> names = LauncherRegistry::Names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.front(), "aaa");
  EXPECT_EQ(names.back(), "zzz");
}

TEST(LauncherRegistryDeathTest, ANameIsTakenOnce) {
  const auto launcher = [](const LaunchOptions&, const RankMain&) { return absl::OkStatus(); };
  EXPECT_DEATH(LauncherRegistration("local", launcher), "invariant");
}

}  // namespace
}  // namespace zeroth
