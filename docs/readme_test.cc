// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

std::set<std::string> Matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (auto match = std::sregex_iterator(text.begin(), text.end(), regex);
       match != std::sregex_iterator(); ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

TEST(ReadmeTest, ShowsTheExampleThatIsCompiled) {
  const std::string example = Read("examples/wrap_parameters.cc");
  const std::string begin = "README: begin\n";
  const size_t from = example.find(begin) + begin.size();
  const size_t to = example.find("// -----", from);
  ASSERT_NE(to, std::string::npos);
  const std::string shown = example.substr(from, to - from);
  ASSERT_GT(shown.size(), 500u);
  EXPECT_NE(Read("README.md").find(shown), std::string::npos) << shown;
}

TEST(ReadmeTest, ListsTheFlagsOfTheTrainer) {
  const std::set<std::string> listed = Matches(Read("README.md"), "\\n\\| `--(\\w+)` \\|");
  const std::set<std::string> defined =
      Matches(Read("train/flags.cc"), "ABSL_FLAG\\([\\w:]+,\\s*(\\w+),");
  EXPECT_GT(defined.size(), 30u);
  EXPECT_EQ(listed, defined);
}

}  // namespace
