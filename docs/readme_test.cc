// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

std::vector<std::smatch> Matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

// Text between double quotes, adjacent literals joined as the compiler does.
std::string Unquoted(const std::string& literals) {
  std::string joined;
  for (const std::smatch& literal : Matches(literals, "\"([^\"]*)\"")) joined += literal[1];
  return joined;
}

// The trainer's defaults by flag, as options.h spells them.
std::map<std::string, std::string> Defaults() {
  const std::string options = Read("train/options.h");
  std::map<std::string, std::string> defaults;
  for (const std::smatch& field : Matches(options, "\n  [\\w:]+ (\\w+)(?: = ([^;]+))?;")) {
    const std::string value = field[2];
    defaults[field[1]] = value.find('"') == std::string::npos ? value : Unquoted(value);
  }
  return defaults;
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
  ExpectShown("README.md", "examples/wrap_parameters.cc", "README: begin", "// -----");
}

TEST(WritingAModelTest, ShowsTheCodeThatIsCompiled) {
  const std::string page = "docs/writing_a_model.md";
  ExpectShown(page, "examples/write_model.cc", "docs: model", "// -----");
  ExpectShown(page, "examples/write_model.cc", "docs: train", "  // -----");
  ExpectShown(page, "nn/decoder/decoder_test.cc", "with Qwen2's biases.", "\nnlohmann::json");
}

TEST(ReadmeTest, ListsTheFlagsOfTheTrainerWithTheirDefaultsAndTexts) {
  const std::string readme = Read("README.md");
  const std::string flags = Read("train/flags.cc");
  const std::map<std::string, std::string> defaults = Defaults();
  std::set<std::string> described;
  for (const std::smatch& flag : Matches(flags,
                                         "ABSL_FLAG\\(\\s*[\\w:]+,\\s*(\\w+),\\s*kDefaults\\.(\\w+)"
                                         ",\\s*((?:\"[^\"]*\"\\s*)+)\\);")) {
    const std::string name = flag[1];
    described.insert(name);
    ASSERT_EQ(defaults.count(flag[2]), 1u) << name;
    const std::string value = defaults.at(flag[2]);
    const std::string quoted = value.empty() ? "" : "`" + value + "`";
    const std::string row = "| `--" + name + "` | " + quoted + " | " + Unquoted(flag[3]) + " |";
    EXPECT_NE(readme.find("\n" + row + "\n"), std::string::npos)
        << "README.md should have this row:\n"
        << row;
  }
  // Nothing was defined in a way that escaped the pattern above, and nothing listed is gone.
  std::set<std::string> defined;
  for (const std::smatch& flag : Matches(flags, "ABSL_FLAG\\(\\s*[\\w:]+,\\s*(\\w+),")) {
    defined.insert(flag[1]);
  }
  std::set<std::string> listed;
  for (const std::smatch& row : Matches(readme, "\n\\| `--(\\w+)` \\|")) listed.insert(row[1]);
  EXPECT_GT(defined.size(), 30u);
  EXPECT_EQ(described, defined);
  EXPECT_EQ(listed, defined);
}

}  // namespace
