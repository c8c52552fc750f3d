// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "zeroth/train/flags.h"

namespace zeroth {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

TEST(ReadmeTest, ShowsTheExampleThatIsCompiled) {
  const std::string example = Read("examples/train_module.cc");
  const std::string begin = "README: begin\n";
  const size_t from = example.find(begin) + begin.size();
  const size_t to = example.find("// -----", from);
  ASSERT_NE(to, std::string::npos);
  const std::string shown = example.substr(from, to - from);
  ASSERT_GT(shown.size(), 500u);
  EXPECT_NE(Read("README.md").find("```cpp\n" + shown + "```\n"), std::string::npos) << shown;
}

TEST(FlagsPageTest, IsWhatTheOptionsSay) {
  EXPECT_TRUE(Read("docs/flags.md") == FlagsMarkdown())
      << "docs/flags.md is of other options; write it again: ./bazelw run //train -- "
         "--help=markdown > docs/flags.md";
}

TEST(ReadmeTest, ListsTheFlagsThatMostRunsNeed) {
  const std::string page = FlagsMarkdown();
  size_t rows = 0;
  for (const absl::string_view line : absl::StrSplit(Read("README.md"), '\n')) {
    if (!absl::StartsWith(line, "| `--") || absl::StartsWith(line, "| `--strategy` | sharded |")) {
      continue;
    }
    ++rows;
    EXPECT_TRUE(absl::StrContains(page, absl::StrCat("\n", line, "\n")))
        << "docs/flags.md has another row: " << line;
  }
  EXPECT_EQ(rows, 10u);
}

}  // namespace
}  // namespace zeroth
