// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/command_line.h"

#include <cstdlib>
#include <filesystem>

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

}  // namespace
}  // namespace zeroth
