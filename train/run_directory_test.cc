// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_directory.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(RunDirectoryTest, NoModelThatARunReadsIsReplaced) {
  const TemporaryDirectory dir;
  const std::string model = dir.path() + "/final";
  fs::create_directories(model);
  TrainOptions options;
  options.out = dir.path();
  options.overwrite = true;
  EXPECT_TRUE(CheckRunDirectory(options, options.out).ok());
  for (const bool goes_on : {false, true}) {
    options.overwrite = !goes_on;
    options.resume = goes_on ? "auto" : "";
    for (std::string* source : {&options.init_from, &options.init_adapter, &options.tokenizer,
                                &options.reference, &options.teacher}) {
      const std::string before = *source;
      for (const std::string& read : {model, model + "/", model + "/model.gguf"}) {
        *source = read;
        const absl::Status status = CheckRunDirectory(options, options.out);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << read;
        EXPECT_THAT(std::string(status.message()), HasSubstr("would replace this model"));
      }
      *source = before;
    }
  }
  options.overwrite = true;
  options.resume = "";
  options.reference = dir.path() + "/other";
  EXPECT_TRUE(CheckRunDirectory(options, options.out).ok());
}

TEST(RunDirectoryTest, TheHighestNumberDoesNotOverflow) {
  const TemporaryDirectory dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  dir.Write("zeroth_out/run-9223372036854775807/x", "");
  dir.Write("zeroth_out/run-6/x", "");
  const absl::StatusOr<std::string> made = NewRunDirectory();
  dir.Write("zeroth_out/run-1000000000/x", "");
  const absl::StatusOr<std::string> full = NewRunDirectory();
  fs::current_path(before);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, "zeroth_out/run-7");
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("the last number of a run"));
}

TEST(RunDirectoryTest, WhatARunWritesIsNotItsData) {
  const TemporaryDirectory dir;
  const std::string notes = dir.path() + "/notes";
  const std::string link = dir.path() + "/link";
  fs::create_directories(notes);
  fs::create_directory_symlink(notes, link);
  const std::string file = dir.Write("notes/a.txt", "text");
  const auto check = [](const std::string& data, const std::string& out) {
    TrainOptions options;
    options.data = data;
    options.out = out;
    const absl::Status status = CheckOutIsOutsideData(options);
    std::swap(options.data, options.eval_data);
    EXPECT_EQ(CheckOutIsOutsideData(options).code(), status.code());
    return status;
  };
  for (const std::string& data :
       {notes, notes + "/", link, file + "," + notes, file + ":0.5," + notes + ":0.5"}) {
    for (const std::string& out : {notes, notes + "/run", notes + "/x/run", link + "/run"}) {
      const absl::Status status = check(data, out);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << data << " " << out;
      EXPECT_THAT(std::string(status.message()), HasSubstr("whose files would be data, too"));
    }
    for (const std::string& out : {dir.path(), notes + "2", notes + "/.hidden/run"}) {
      EXPECT_TRUE(check(data, out).ok()) << data << " " << out;
    }
    EXPECT_TRUE(check(data, "").ok());
  }
  EXPECT_FALSE(check(".", "").ok());
  EXPECT_TRUE(check("*.txt", "").ok());
  EXPECT_TRUE(check(file, notes).ok());
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
  EXPECT_EQ(CheckRunDirectory(options, options.out).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RemoveEarlierRun(dir.path()).ok());
  EXPECT_TRUE(CheckRunDirectory(options, options.out).ok());
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
