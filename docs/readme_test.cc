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

// What stands in `source` after the line that ends in `begin`, up to `end`, is shown by `page`.
void ExpectShown(const std::string& page, const std::string& source, const std::string& begin,
                 const std::string& end) {
  const std::string code = Read(source);
  const size_t at = code.find(begin + "\n");
  ASSERT_NE(at, std::string::npos) << begin;
  const size_t from = at + begin.size() + 1;
  const size_t to = code.find(end, from);
  ASSERT_NE(to, std::string::npos) << end;
  const std::string shown = code.substr(from, to - from);
  ASSERT_GT(shown.size(), 500u);
  EXPECT_NE(Read(page).find("```cpp\n" + shown + "```\n"), std::string::npos) << shown;
}

TEST(ReadmeTest, ShowsTheExampleThatIsCompiled) {
  ExpectShown("README.md", "examples/train_module.cc", "README: begin", "// -----");
}

TEST(WritingAModelTest, ShowsTheCodeThatIsCompiled) {
  const std::string page = "docs/writing_a_model.md";
  ExpectShown(page, "examples/write_model.cc", "docs: model", "// -----");
  ExpectShown(page, "examples/write_model.cc", "docs: train", "  // -----");
  ExpectShown(page, "nn/olmo2/olmo2.cc", "namespace {\n", "\n}  // namespace");
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
