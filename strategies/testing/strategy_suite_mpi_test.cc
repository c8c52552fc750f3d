// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the strategy suite with ranks in processes that communicate by MPI. Results must have the
// bits of the local back end, with which the suite computes the expected values.

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/mpi/testing/mpirun.h"

namespace zeroth::testing {
namespace {

class StrategySuiteMpiTest : public ::testing::TestWithParam<int> {};

TEST_P(StrategySuiteMpiTest, EveryRankPassesTheSuite) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  Mpirun run;
  run.ranks = GetParam();
  run.program = {"strategies/testing/strategy_suite_mpi_ranks"};
  const std::string all = absl::StrCat("Mpi/StrategySuite.*/*On", run.ranks);
  ExpectRanksPass(run, absl::StrCat(all, ":", all, "InGroupsOf*"), "Mpi/StrategySuite.");
}

INSTANTIATE_TEST_SUITE_P(Mpi, StrategySuiteMpiTest, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace zeroth::testing
