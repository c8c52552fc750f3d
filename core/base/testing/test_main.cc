// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the test cases of the sources that ZEROTH_TEST_SOURCES names (with spaces between), or all
// without that variable. So several targets share one binary, see zeroth_test_binary in
// //bazel:cc.bzl.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/testing/source_filter.h"

namespace zeroth {
namespace {

std::vector<LinkedTestCase> LinkedTestCases() {
  std::vector<LinkedTestCase> cases;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      cases.push_back({suite.name(), test.name(), test.file()});
    }
  }
  return cases;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  // Registers the cases with parameters, too.
  testing::InitGoogleMock(&argc, argv);
  if (const char* sources = std::getenv("ZEROTH_TEST_SOURCES"); sources != nullptr) {
    const absl::StatusOr<std::string> filter =
        zeroth::FilterBySource(GTEST_FLAG_GET(filter), zeroth::LinkedTestCases(),
                               absl::StrSplit(sources, ' ', absl::SkipEmpty()));
    if (!filter.ok()) {
      std::fprintf(stderr, "ZEROTH_TEST_SOURCES: %s\n", filter.status().ToString().c_str());
      return 1;
    }
    GTEST_FLAG_SET(filter, *filter);
  }
  return RUN_ALL_TESTS();
}
