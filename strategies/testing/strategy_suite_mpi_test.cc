// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The strategy suite with ranks that are processes and talk by MPI: no strategy knows of it, and
// the bits are those of the local back end, which the suite computes its expectations by.

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
