// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/temporary_path.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// A process that makes temporaries of `of` and waits to be killed.
pid_t StartMaker(const std::string& of) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto file = CreateTemporaryFile(of);
    const auto empty = CreateTemporaryDirectory(of);
    const auto filled = CreateTemporaryDirectory(of);
    const bool made = file.ok() && empty.ok() && filled.ok() &&
                      WriteFileDurably(filled->path + "/weights", "some").ok();
    if (!made || write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST(TemporaryPathTest, WhatTheDeadLeaveGoesAndWhatTheLivingMakeStays) {
  const TemporaryDirectory dir;
  const std::string of = dir.File("final");
  const pid_t dead = StartMaker(of);
  const std::vector<std::string> first = dir.List();
  EXPECT_EQ(first.size(), 3u);
  const pid_t living = StartMaker(of);
  EXPECT_EQ(dir.List().size(), 6u);
  RemoveDeadTemporaries(of);
  EXPECT_EQ(dir.List().size(), 6u) << "both live";
  kill(dead, SIGKILL);
  waitpid(dead, nullptr, 0);
  RemoveDeadTemporaries(of);
  const std::vector<std::string> rest = dir.List();
  EXPECT_EQ(rest.size(), 3u);
  for (const std::string& name : first) {
    EXPECT_FALSE(fs::exists(dir.File(name))) << name;
  }
  kill(living, SIGKILL);
  waitpid(living, nullptr, 0);
  RemoveDeadTemporaries(of);
  EXPECT_TRUE(dir.List().empty());
}

TEST(TemporaryPathTest, WhatIsMarkedStays) {
  const TemporaryDirectory dir;
  for (const bool keep : {true, false}) {
    const TemporaryPath made = *CreateTemporaryDirectory(dir.File("final"));
    if (keep) {
      EXPECT_TRUE(KeepTemporary(made.path).ok());
    }
  }
  EXPECT_EQ(dir.List().size(), 2u);
  RemoveDeadTemporaries(dir.File("final"));
  ASSERT_EQ(dir.List().size(), 1u);
  EXPECT_TRUE(fs::exists(dir.File(dir.List()[0] + "/.keep")));
}

TEST(TemporaryPathTest, NothingElseIsRemoved) {
  const TemporaryDirectory dir;
  const std::set<std::string> others = {"final",
                                        "final.tmp-1-0",
                                        "final.tmp-0123456789abcdeg",
                                        "final.tmp-0123456789abcdef0",
                                        "final.previous-0123456789abcdef",
                                        "other.tmp-0123456789abcdef"};
  for (const std::string& name : others) dir.Write(name, "");
  dir.Write("final.tmp-0123456789abcdef", "");
  RemoveDeadTemporaries(dir.File("final"));
  const std::vector<std::string> left = dir.List();
  EXPECT_EQ(std::set<std::string>(left.begin(), left.end()), others);
}

// Two processes with one process number, as in two containers, and with one counter of names.
TEST(TemporaryPathTest, NamesDoNotDependOnTheProcess) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = TemporarySibling("dir/f", "tmp");
    EXPECT_EQ(name.size(), std::string("dir/f.tmp-0123456789abcdef").size()) << name;
    EXPECT_EQ(name.find("-" + std::to_string(getpid()) + "-"), std::string::npos) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 100u);
}

TEST(TemporaryPathTest, AFileIsReplacedAsAWhole) {
  const TemporaryDirectory dir;
  for (const std::string content : {"first", "second, longer", ""}) {
    ASSERT_TRUE(ReplaceFile(dir.File("f"), content).ok());
    EXPECT_EQ(ReadTestFile(dir.File("f")), content);
  }
  EXPECT_FALSE(ReplaceFile(dir.File("none/f"), "").ok());
  EXPECT_EQ(dir.List(), std::vector<std::string>{"f"});
}

// Each also removes what dead processes left, and must never take another's file for that.
TEST(TemporaryPathTest, WritersOfOneFileDoNotDisturbEachOther) {
  const TemporaryDirectory dir;
  const std::string path = dir.File("text");
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&path, writer] {
      for (int i = 0; i < 100; ++i) {
        const absl::Status written = ReplaceFile(path, std::string(100, 'a' + writer));
        EXPECT_TRUE(written.ok()) << written;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(ReadFile(path, 1000)->size(), 100u);
  EXPECT_EQ(dir.List().size(), 1u);
}

TEST(TemporaryPathTest, ErrorsNameThePath) {
  const auto nowhere = CreateTemporaryDirectory("/no/such/place/f");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.status().message().find("/no/such/place/f.tmp-"), std::string::npos);
  EXPECT_FALSE(CreateTemporaryFile("/no/such/place/f").ok());
}

}  // namespace
}  // namespace zeroth
