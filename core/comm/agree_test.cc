// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/agree.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

TEST(AgreeTest, AllReturnTheErrorOfTheLowestRankThatHasOne) {
  for (const int world_size : {1, 2, 3, 5}) {
    for (int failing = 0; failing < (1 << world_size); ++failing) {
      std::vector<absl::Status> agreed(static_cast<size_t>(world_size));
      EXPECT_EQ(RunLocalRanks(
                    world_size,
                    [&](Communicator& world) -> absl::Status {
                      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                                              DeviceRegistry::Create("cpu", DeviceOptions()));
                      const int rank = world.rank();
                      const absl::Status mine = (failing >> rank & 1) != 0
                                                    ? absl::DataLossError(absl::StrCat("of ", rank))
                                                    : absl::OkStatus();
                      agreed[static_cast<size_t>(rank)] =
                          AgreeOnStatus(world, *device, mine, "test");
                      return absl::OkStatus();
                    }),
                absl::OkStatus());
      const int first = __builtin_ctz(static_cast<unsigned>(failing | 1 << world_size));
      const std::string prefix = world_size == 1 ? "" : absl::StrCat("rank ", first, ": ");
      const absl::Status expected =
          failing == 0 ? absl::OkStatus() : absl::DataLossError(absl::StrCat(prefix, "of ", first));
      for (const absl::Status& status : agreed) EXPECT_EQ(status, expected);
    }
  }
}

TEST(AgreeTest, BroadcastsTextsOfAnyLength) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(100'000, '\xff')}) {
    EXPECT_EQ(
        RunLocalRanks(3,
                      [&](Communicator& world) -> absl::Status {
                        ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                                                DeviceRegistry::Create("cpu", DeviceOptions()));
                        const std::string mine = world.rank() == 1 ? text : "another";
                        ZEROTH_ASSIGN_OR_RETURN(const std::string got,
                                                BroadcastText(world, *device, 1, mine, "test"));
                        return got == text ? absl::OkStatus() : absl::InternalError("another text");
                      }),
        absl::OkStatus());
  }
}

}  // namespace
}  // namespace zeroth
