// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

// Expects that `page` shows the text of `source` from after the line that ends in `begin` up to
// `end`.
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
  ExpectShown(page, "examples/own_parts/my_model.cc", "  Linear* linear_;\n};\n",
              "\n// What the trainer asks of a model.");
  ExpectShown(page, "examples/own_parts/my_model.cc", "// What the trainer asks of a model.",
              "\n}  // namespace");
}

TEST(WritingAnObjectiveTest, ShowsTheCodeThatIsCompiled) {
  ExpectShown("docs/writing_an_objective.md", "examples/write_objective.cc", "docs: objective",
              "// -----");
}

TEST(WritingAStrategyTest, ShowsTheCodeThatIsCompiled) {
  ExpectShown("docs/writing_a_strategy.md", "examples/own_parts/my_strategy.cc", "namespace {\n",
              "\n}  // namespace");
}

TEST(FlagsPageTest, IsWhatTheOptionsSay) {
  EXPECT_TRUE(Read("docs/flags.md") == FlagsMarkdown())
      << "docs/flags.md is of other options; write it again: ./bazelw run //train -- "
         "--help=markdown > docs/flags.md";
}

// The command lines of the trainer that a page shows, in words. Quotes keep words together, and an
// ellipsis stands for what the reader fills in.
std::vector<std::vector<std::string>> TrainerCommands(const std::string& page) {
  std::vector<std::vector<std::string>> commands;
  bool code = false;
  const std::string text = absl::StrReplaceAll(Read(page), {{"\\\n", " "}});
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "```")) code = !code;
    const bool by_bazel = absl::StrContains(line, "bazelw run //train -- ");
    if (!code || !(by_bazel || absl::StrContains(line, "bazel-bin/train/train "))) continue;
    const size_t begin =
        by_bazel ? line.find(" -- ") + 4 : line.find("bazel-bin/train/train ") + 22;
    std::vector<std::string>& words = commands.emplace_back();
    for (const absl::string_view word :
         absl::StrSplit(line.substr(begin, line.find(" > ") - begin), ' ')) {
      if (!word.empty()) words.push_back(absl::StrReplaceAll(word, {{"'", ""}, {"…", "text"}}));
    }
  }
  return commands;
}

// Parsed and validated, but not run: files need not be there.
TEST(PagesTest, ShowCommandsThatTheTrainerTakes) {
  size_t count = 0;
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  for (const std::string& page : pages) {
    for (std::vector<std::string>& words : TrainerCommands(page)) {
      const std::string command = absl::StrJoin(words, " ");
      if (absl::StrContains(command, "--help") || absl::StrContains(command, "--config")) continue;
      words.insert(words.begin(), "train");
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      const auto options = ParseCommandLine(static_cast<int>(argv.size()), argv.data());
      const absl::Status status = options.ok() ? Validate(*options) : options.status();
      EXPECT_TRUE(status.ok()) << page << ": " << command << "\n" << status;
      ++count;
    }
  }
  EXPECT_GT(count, 25u);
}

}  // namespace
}  // namespace zeroth
