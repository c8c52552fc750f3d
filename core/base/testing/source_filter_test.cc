// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/testing/source_filter.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

const LinkedTestCase kCases[] = {{"First", "A", "x/first_test.cc"},
                                 {"First", "B", "x/first_test.cc"},
                                 {"All/Second", "A/0", "x/second_test.cc"},
                                 {"Both", "A", "x/first_test.cc"},
                                 {"Both", "B", "external/zeroth/x/second_test.cc"}};

TEST(FilterBySourceTest, ExcludesTheCasesOfOtherSources) {
  EXPECT_EQ(*FilterBySource("*", kCases, {"x/first_test.cc"}), "*-All/Second.*:Both.B");
  EXPECT_EQ(*FilterBySource("*", kCases, {"x/second_test.cc"}), "*-Both.A:First.*");
  EXPECT_EQ(*FilterBySource("*", kCases, {"x/first_test.cc", "x/second_test.cc"}), "*");
}

TEST(FilterBySourceTest, KeepsWhatAFilterExcludes) {
  EXPECT_EQ(*FilterBySource("-Nightly*", kCases, {"x/second_test.cc"}), "-Nightly*:Both.A:First.*");
}

TEST(FilterBySourceTest, RefusesASourceWithoutCases) {
  const absl::StatusOr<std::string> filter =
      FilterBySource("*", kCases, {"x/first_test.cc", "first_tes.cc"});
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(filter.status().message(),
            "no test case of first_tes.cc is linked in: add its target to `tests` of the "
            "zeroth_test_binary");
}

TEST(FilterBySourceTest, RefusesCasesThatNoTargetNames) {
  const LinkedTestCase suite[] = {{"First", "A", "x/first_test.cc"},
                                  {"Suite", "A", "x/some_suite.h"}};
  const absl::StatusOr<std::string> filter = FilterBySource("*", suite, {"x/first_test.cc"});
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(filter.status().message(),
            "the test case Suite.A is in x/some_suite.h, which no target names: link its test by "
            "itself");
}

TEST(FilterBySourceTest, RefusesCasesThatAFilterCannotTellApart) {
  const LinkedTestCase same[] = {{"First", "A", "x/first_test.cc"},
                                 {"First", "A", "x/second_test.cc"}};
  const absl::StatusOr<std::string> filter = FilterBySource("*", same, {"x/first_test.cc"});
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(filter.status().message(),
            "two sources define the test case First.A: rename one of them");
}

}  // namespace
}  // namespace zeroth
