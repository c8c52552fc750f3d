// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flight_record.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json Group(const std::string& name, int calls, const std::string& label) {
  return {{"name", name},
          {"calls", calls},
          {"latest",
           {{{"operation", "all_reduce"}, {"label", label}, {"bytes", 4}, {"seconds_ago", 1.5}}}}};
}

nlohmann::json RecordOf(int rank, const std::vector<nlohmann::json>& groups) {
  return {{"rank", rank}, {"error", absl::StrCat("error ", rank)}, {"communicators", groups}};
}

TEST(FlightRecordTest, SaysWhoHasIssuedFewerCalls) {
  const std::string text =
      WaitingRanksText({RecordOf(0, {Group("all", 5, "loss"), Group("left", 9, "h.1")}),
                        RecordOf(1, {Group("all", 5, "loss"), Group("right", 7, "h.1")}),
                        RecordOf(2, {Group("all", 4, "h.0"), Group("left", 9, "h.1")})},
                       4);
  EXPECT_THAT(text, HasSubstr("  rank 1: error 1\n"));
  EXPECT_THAT(text, HasSubstr("No record of rank 3:"));
  EXPECT_THAT(
      text,
      HasSubstr("communicator 0, all:\n"
                "  ranks 0, 1: 5 calls, the last all_reduce 'loss', issued 1.5 s before the "
                "record\n"
                "  rank 2: 4 calls, the last all_reduce 'h.0', issued 1.5 s before the record\n"
                "  so ranks 0, 1 wait for rank 2, at the latest in all_reduce 'loss'"));
  EXPECT_THAT(text, Not(HasSubstr("left"))) << "its ranks have made the same calls";
  EXPECT_THAT(text, Not(HasSubstr("right"))) << "it has one rank, of another group than left";
}

// Rank 2 makes a call less than the others, and all of them leave a record.
TEST(FlightRecordTest, RanksWriteOneTextTogether) {
  const std::string directory = absl::StrCat(::testing::TempDir(), "/run");
  const absl::Status status = RunLocalRanks(3, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor x, Tensor::Zeros(*device, Shape({3}), DType::kFloat32,
                                                          MemoryCategory::kCommunication));
    ZEROTH_ASSIGN_OR_RETURN(const auto stream, device->CreateStream("side"));
    for (int i = 0; i < 40 - (world.rank() == 2 ? 1 : 0); ++i) {
      ZEROTH_RETURN_IF_ERROR(world.AllReduce(x, ReduceOp::kSum, *stream, absl::StrCat("unit ", i)));
    }
    Communicator* const groups[] = {&world};
    const absl::Status written =
        WriteFlightRecord(directory, world, groups, absl::AbortedError("torn"), absl::Seconds(60));
    // The call that is missing, so that everybody can end.
    if (world.rank() == 2) {
      ZEROTH_RETURN_IF_ERROR(world.AllReduce(x, ReduceOp::kSum, *stream, "unit 39"));
    }
    ZEROTH_RETURN_IF_ERROR(stream->Synchronize());
    return written;
  });
  ASSERT_TRUE(status.ok()) << status;
  const std::string flight = absl::StrCat(directory, "/flight_recorder");
  const absl::StatusOr<std::string> text = ReadFile(flight + "/who_waited.txt", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text,
              HasSubstr("so ranks 0, 1 wait for rank 2, at the latest in all_reduce 'unit 39'"));
  EXPECT_THAT(*text, Not(HasSubstr("No record")));
  const nlohmann::json record = nlohmann::json::parse(*ReadFile(flight + "/rank-2.json", 1 << 20));
  const nlohmann::json& group = record["communicators"][0];
  EXPECT_EQ(group["calls"], 39);
  ASSERT_EQ(group["latest"].size(), CommStats::kLatest);
  EXPECT_EQ(group["latest"].front()["label"], "unit 7");
  EXPECT_EQ(group["latest"].back()["label"], "unit 38");
  // A later start must not mistake these records for its own.
  ASSERT_TRUE(SetFlightRecordAside(directory).ok());
  EXPECT_FALSE(IsFile(flight + "/rank-2.json"));
  EXPECT_TRUE(IsFile(flight + "_earlier/rank-2.json"));
  ASSERT_TRUE(SetFlightRecordAside(directory).ok());
  EXPECT_TRUE(IsFile(flight + "_earlier/rank-2.json"));
}

}  // namespace
}  // namespace zeroth
