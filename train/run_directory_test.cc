// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_directory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(RunDirectoryTest, NothingThatARunStartsFromIsReplaced) {
  const TemporaryDirectory dir;
  const std::string model = dir.path() + "/final";
  fs::create_directories(model);
  TrainOptions options;
  options.out = dir.path();
  options.overwrite = true;
  EXPECT_TRUE(CheckRunDirectory(options).ok());
  for (std::string* source : {&options.init_from, &options.init_adapter, &options.tokenizer}) {
    const std::string before = *source;
    *source = model;
    const absl::Status status = CheckRunDirectory(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("would replace what it starts from"));
    *source = before;
  }
}

TEST(RunDirectoryTest, OverwriteRemovesWhatRunsMakeAndNothingElse) {
  const TemporaryDirectory dir;
  for (const char* name : {"final", "final_adapter", "final_ema", "step-00000002", "step-00000004",
                           "set-aside-step-00000006", "mine"}) {
    fs::create_directories(fs::path(dir.path()) / name);
  }
  for (const char* name : {"metrics.jsonl", "notes.txt"}) {
    std::ofstream(fs::path(dir.path()) / name) << "text";
  }
  TrainOptions options;
  options.out = dir.path();
  EXPECT_EQ(CheckRunDirectory(options).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RemoveEarlierRun(dir.path()).ok());
  EXPECT_TRUE(CheckRunDirectory(options).ok());
  int left = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "mine" || name == "notes.txt") << name;
    ++left;
  }
  EXPECT_EQ(left, 2);
}

}  // namespace
}  // namespace zeroth
