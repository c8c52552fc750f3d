// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/data_error_report.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

// A host that waits for earlier work of a stream reads the word while a kernel reports.
TEST(DataErrorReportTest, AHostSeesAllOfAReportOrNothing) {
  for (int32_t turn = 1; turn <= 300; ++turn) {
    DataErrorWord word;
    std::thread kernel(
        [&] { ReportDataError(&word, DataErrorCode::kTarget, -turn, int64_t{turn} * 3, 1, turn); });
    absl::Status seen;
    while (seen.ok()) seen = ToStatus(word);
    EXPECT_NE(seen.message().find(absl::StrCat("targets[", turn * 3, "] is -", turn, ";")),
              absl::string_view::npos)
        << seen;
    EXPECT_NE(seen.message().find(absl::StrCat("[0, ", turn, ")")), absl::string_view::npos)
        << seen;
    kernel.join();
  }
}

TEST(DataErrorReportTest, TheFirstReportIsKept) {
  DataErrorWord word;
  ReportDataError(&word, DataErrorCode::kToken, 9, 5, 4, 8);
  const absl::Status first = ToStatus(word);
  ReportDataError(&word, DataErrorCode::kTarget, 1, 2, 3, 4);
  EXPECT_EQ(ToStatus(word), first);
  EXPECT_NE(first.message().find("tokens[1, 1] is 9"), absl::string_view::npos) << first;
}

}  // namespace
}  // namespace zeroth::cuda
