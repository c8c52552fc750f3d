// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The shared suite of communicators, in processes that a real mpirun starts.

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/mpi/testing/mpirun.h"

namespace zeroth::testing {
namespace {

class MpiConformanceTest : public ::testing::TestWithParam<std::tuple<MpiKind, int>> {};

TEST_P(MpiConformanceTest, EveryRankPassesTheSuite) {
  const auto [kind, ranks] = GetParam();
  ZEROTH_SKIP_WITHOUT_MPIRUN(kind);
  Mpirun run;
  run.kind = kind;
  run.ranks = ranks;
  run.program = {"core/comm/mpi/mpi_conformance_ranks"};
  const std::string suffix = absl::StrCat("/mpi_cpu_", ranks);
  ExpectRanksPass(run, absl::StrCat("Mpi/CommunicatorTest.*", suffix),
                  absl::StrCat("Mpi/CommunicatorTest.CountsAndRecordsCalls", suffix));
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiConformanceTest,
                         ::testing::Combine(::testing::Values(MpiKind::kOpenMpi, MpiKind::kMpich),
                                            ::testing::Values(1, 2, 3, 4, 5)),
                         [](const auto& param) {
                           return absl::StrCat(MpiKindName(std::get<0>(param.param)), "_",
                                               std::get<1>(param.param));
                         });

}  // namespace
}  // namespace zeroth::testing
