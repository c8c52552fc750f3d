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

struct Ranks {
  int ranks = 1;
  int per_node = 0;  // 0: all are on one node
};

class MpiConformanceTest : public ::testing::TestWithParam<std::tuple<MpiKind, Ranks>> {};

TEST_P(MpiConformanceTest, EveryRankPassesTheSuite) {
  const MpiKind kind = std::get<0>(GetParam());
  const auto [ranks, per_node] = std::get<1>(GetParam());
  ZEROTH_SKIP_WITHOUT_MPIRUN(kind);
  Mpirun run;
  run.kind = kind;
  run.ranks = ranks;
  if (per_node > 0) {
    run.environment = {{"ZEROTH_TEST_RANKS_PER_NODE", absl::StrCat(per_node)}};
  }
  run.program = {"core/comm/mpi/mpi_conformance_ranks"};
  const std::string suffix = absl::StrCat("/mpi_cpu_", ranks);
  ExpectRanksPass(run, absl::StrCat("Mpi/CommunicatorTest.*", suffix),
                  absl::StrCat("Mpi/CommunicatorTest.CountsAndRecordsCalls", suffix));
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<MpiKind, Ranks>>& info) {
  const auto& [kind, ranks] = info.param;
  const std::string name = absl::StrCat(MpiKindName(kind), "_", ranks.ranks);
  return ranks.per_node > 0 ? absl::StrCat(name, "_on_nodes_of_", ranks.per_node) : name;
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiConformanceTest,
                         ::testing::Combine(::testing::Values(MpiKind::kOpenMpi, MpiKind::kMpich),
                                            ::testing::Values(Ranks{1}, Ranks{2}, Ranks{3},
                                                              Ranks{4}, Ranks{5}, Ranks{4, 2})),
                         NameOf);

}  // namespace
}  // namespace zeroth::testing
