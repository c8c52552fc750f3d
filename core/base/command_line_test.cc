// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/command_line.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

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

}  // namespace
}  // namespace zeroth
