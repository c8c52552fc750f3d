// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/command_line.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

ABSL_FLAG(int, max_tokens, 3, "Tokens.");
ABSL_FLAG(std::string, prompt, "", "Text.");
ABSL_FLAG(std::string, in, "", "Files.");
ABSL_FLAG(bool, chat, false, "Answer.");

namespace zeroth {
namespace {

namespace fs = std::filesystem;

TEST(CommandLineTest, RelativePathsMeanWhereTheUserStands) {
  const fs::path start = fs::current_path();
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_TRUE(EnterUsersDirectory().ok());
  EXPECT_EQ(fs::current_path(), start);

  setenv("BUILD_WORKING_DIRECTORY", "/no/such/folder", 1);
  const absl::Status status = EnterUsersDirectory();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "cannot enter /no/such/folder: ")) << status;
  EXPECT_EQ(fs::current_path(), start);

  setenv("BUILD_WORKING_DIRECTORY", "/", 1);
  EXPECT_TRUE(EnterUsersDirectory().ok());
  EXPECT_EQ(fs::current_path(), "/");
}

absl::StatusOr<std::vector<std::string>> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseFlagsAndWords("Says nothing.", "command_line_test.cc", static_cast<int>(argv.size()),
                            argv.data());
}

TEST(CommandLineTest, FlagsThatDoNotExistAreAnErrorThatSaysWhichMayBeMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--max_token=3"}, "there is no flag --max_token; did you mean --max_tokens? --help"},
      {{"-promt", "a"}, "there is no flag --promt; did you mean --prompt? --help"},
      {{"--max-tokens=3"}, "there is no flag --max-tokens; did you mean --max_tokens? --help"},
      {{"--max_new_tokens=3"}, "no flag --max_new_tokens; did you mean --max_tokens?"},
      // Other programs' names for flags that this one does not have.
      {{"--max_shard_sise=3"}, "there is no flag --max_shard_sise; --help lists all flags"},
      {{"--output=x"}, "there is no flag --output; --help lists all flags"},
      {{"--in=a", "--chat", "--in", "b"}, "--in is given more than once; give it once"},
      {{"--nochats"}, "there is no flag --nochats"},
      {{"--noprompt"}, "there is no flag --noprompt"},
      {{"--a=1", "word", "--promtp=b"},
       "there is no flag --a\n  there is no flag --promtp; did you mean --prompt?\n  --help"},
  };
  for (const auto& [words, expected] : cases) {
    const absl::Status status = Parse(words).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << expected;
    EXPECT_TRUE(absl::StrContains(status.message(), expected)) << status << "\n" << expected;
  }
}

TEST(CommandLineTest, HelpIsPrintedAndEndsTheProgram) {
  const auto ends = [](int status) { return WIFEXITED(status); };
  EXPECT_EXIT(Parse({"--help"}).IgnoreError(), ends, "");
  EXPECT_EXIT(Parse({"--max_tokens=3", "--version"}).IgnoreError(), ends, "");
}

TEST(CommandLineTest, ValuesAndWordsAreNotFlags) {
  absl::SetFlag(&FLAGS_chat, true);
  const auto words = Parse({"one", "--prompt", "--unknown", "--nochat", "-", "--max_tokens=5",
                            "--undefined=1", "--undefok=undefined", "--", "--after"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(*words, (std::vector<std::string>{"one", "-", "--after"}));
  EXPECT_EQ(absl::GetFlag(FLAGS_prompt), "--unknown");
  EXPECT_EQ(absl::GetFlag(FLAGS_max_tokens), 5);
  EXPECT_FALSE(absl::GetFlag(FLAGS_chat));
}

TEST(CommandLineTest, AProgramsErrorIsItsExitCodeAndItsLastWord) {
  EXPECT_EQ(RunProgram([] { return absl::OkStatus(); }), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunProgram([] { return absl::InvalidArgumentError("f: no tokens"); }), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: f: no tokens\n");
}

TEST(CommandLineTest, WantOfMemoryAndOtherExceptionsAreErrors) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunProgram([]() -> absl::Status { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(RunProgram([]() -> absl::Status { throw std::runtime_error("no thread"); }), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::StrContains(said, "error: there is not enough memory")) << said;
  EXPECT_TRUE(absl::StrContains(said, "error: threw an exception: no thread\n")) << said;
}

TEST(CommandLineTest, WritesThatCannotBeAreErrorsOfTheWrite) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const int file = open((testing::TempDir() + "/limited").c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_GE(file, 0);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 10;
  // Either would kill the test.
  EXPECT_EQ(RunProgram([&] {
              EXPECT_EQ(write(ends[1], "x", 1), -1);
              EXPECT_EQ(errno, EPIPE);
              EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
              EXPECT_EQ(pwrite(file, "x", 1, 10), -1);
              EXPECT_EQ(errno, EFBIG);
              EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
              return absl::OkStatus();
            }),
            0);
  close(ends[1]);
  close(file);
}

TEST(CommandLineTest, TextForClosedStreamsReachesNoFile) {
  const std::string path = testing::TempDir() + "/opened";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
    _exit(RunProgram([&] {
      for (int i = 0; i < 3; ++i) {
        const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
        if (write(file, "x", 1) != 1) _exit(2);
      }
      std::fprintf(stdout, "printed");
      std::fflush(stdout);
      std::fprintf(stderr, "printed");
      return absl::OkStatus();
    }));
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
}

// Returns the exit code of a program that prints to `out`.
int ExitCodeOfPrinting(int out) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(out, STDOUT_FILENO);
    close(STDERR_FILENO);
    _exit(RunProgram([] {
      std::printf("printed");
      return absl::OkStatus();
    }));
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

TEST(CommandLineTest, WhatCannotBePrintedIsAnErrorUnlessNobodyReadsIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(ExitCodeOfPrinting(ends[1]), 0);
  close(ends[1]);
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_EQ(ExitCodeOfPrinting(full), 1);
  close(full);
}

}  // namespace
}  // namespace zeroth
