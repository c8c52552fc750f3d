// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Steps = std::vector<int64_t>;

TEST(CheckpointDirectoryTest, NamesReadBackAndSort) {
  for (const int64_t step : {int64_t{0}, int64_t{120}, int64_t{99999999}, int64_t{1} << 60}) {
    EXPECT_EQ(ParseCheckpointName(CheckpointName(step)), step);
  }
  EXPECT_EQ(CheckpointName(120), "step-00000120");
  for (const char* name :
       {"", "step-", "step-1", "step-+0000001", "step--0000001", "step- 0000001", "step-000000001",
        "step-00000001x", "xstep-00000001", "step-99999999999999999999"}) {
    EXPECT_EQ(ParseCheckpointName(name), std::nullopt) << name;
  }
}

TEST(CheckpointDirectoryTest, ListsOnlyWhatIsComplete) {
  const TemporaryDirectory dir;
  EXPECT_THAT(*ListCheckpoints(dir.File("absent")), IsEmpty());
  for (const char* name : {"step-00000020/x", "step-00000003/x", ".unfinished-step-00000030/x",
                           ".deleted-step-00000001.tmp-1-0/x", "set-aside-step-00000040/x",
                           "final/x", "step-00000050"}) {
    dir.Write(name, "");
  }
  EXPECT_THAT(*ListCheckpoints(dir.path()), ElementsAre(3, 20));
  EXPECT_EQ(RemoveCheckpointLeftovers(dir.path()), absl::OkStatus());
  EXPECT_THAT(dir.List(), ElementsAre("final", "set-aside-step-00000040", "step-00000003",
                                      "step-00000020", "step-00000050"));
  EXPECT_EQ(ListCheckpoints(dir.File("step-00000050")).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CheckpointDirectoryTest, RetentionKeepsTheLastAndEveryNth) {
  const Steps steps = {10, 20, 30, 40, 50};
  EXPECT_THAT(SuperfluousCheckpoints(steps, {.keep_last = 2}), ElementsAre(10, 20, 30));
  EXPECT_THAT(SuperfluousCheckpoints(steps, {.keep_last = 2, .keep_every = 20}),
              ElementsAre(10, 30));
  EXPECT_THAT(SuperfluousCheckpoints(steps, {.keep_last = 0, .keep_every = 20}), IsEmpty());
  EXPECT_THAT(SuperfluousCheckpoints(steps, {.keep_last = 9}), IsEmpty());
  EXPECT_THAT(SuperfluousCheckpoints({}, {.keep_last = 1}), IsEmpty());
  EXPECT_EQ(ValidateRetention({.keep_last = -1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValidateRetention({.keep_last = 1, .keep_every = -1}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckpointDirectoryTest, DeletesAndSetsAside) {
  const TemporaryDirectory dir;
  dir.Write("step-00000001/a", "1");
  dir.Write("step-00000002/a", "2");
  EXPECT_EQ(DeleteCheckpoint(dir.path(), 1), absl::OkStatus());
  EXPECT_EQ(DeleteCheckpoint(dir.path(), 1).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*SetCheckpointAside(dir.path(), 2), dir.File("set-aside-step-00000002"));
  dir.Write("step-00000002/a", "3");
  EXPECT_EQ(*SetCheckpointAside(dir.path(), 2), dir.File("set-aside-step-00000002-2"));
  EXPECT_THAT(dir.List(), ElementsAre("set-aside-step-00000002", "set-aside-step-00000002-2"));
  EXPECT_EQ(ReadTestFile(dir.File("set-aside-step-00000002/a")), "2");
}

TEST(CheckpointDirectoryTest, WhatIsSetAsideCountsInRetention) {
  const TemporaryDirectory dir;
  for (const char* name : {"set-aside-step-00000010/a", "set-aside-step-00000009-10/a",
                           "set-aside-step-00000009-2/a", "set-aside-step-00000009/a",
                           "set-aside-step-9/a", "set-aside-others/a", "step-00000001/a"}) {
    dir.Write(name, "");
  }
  EXPECT_THAT(*ListSetAside(dir.path()),
              ElementsAre("set-aside-step-00000009", "set-aside-step-00000009-2",
                          "set-aside-step-00000009-10", "set-aside-step-00000010"));
  EXPECT_THAT(*DeleteSuperfluousSetAside(dir.path(), {.keep_last = 0}), IsEmpty());
  EXPECT_THAT(*DeleteSuperfluousSetAside(dir.path(), {.keep_last = 4}), IsEmpty());
  EXPECT_THAT(*DeleteSuperfluousSetAside(dir.path(), {.keep_last = 2}),
              ElementsAre("set-aside-step-00000009", "set-aside-step-00000009-2"));
  EXPECT_THAT(dir.List(),
              ElementsAre("set-aside-others", "set-aside-step-00000009-10",
                          "set-aside-step-00000010", "set-aside-step-9", "step-00000001"));
}

}  // namespace
}  // namespace zeroth
