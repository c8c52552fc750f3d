// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests of the MPI back end alone: failures of processes and libraries, programs that use MPI
// themselves, and meeting by MPI. The ranks' side is mpi_ranks.cc.

#include "zeroth/core/comm/mpi/mpi.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/mpi/mpi_library.h"
#include "zeroth/core/comm/mpi/testing/mpirun.h"

namespace zeroth::testing {
namespace {

class MpiTest : public ::testing::TestWithParam<MpiKind> {
 protected:
  void SetUp() override { ZEROTH_SKIP_WITHOUT_MPIRUN(GetParam()); }

  static Mpirun Ranks(int ranks) {
    Mpirun run;
    run.kind = GetParam();
    run.ranks = ranks;
    run.program = {"core/comm/mpi/mpi_ranks"};
    return run;
  }

  // Every rank passes the test of that name in mpi_ranks.cc.
  static void Expect(const Mpirun& run, const std::string& test) {
    const std::string name = absl::StrCat("MpiRanks.", test);
    ExpectRanksPass(run, name, name);
  }
};

INSTANTIATE_TEST_SUITE_P(Mpi, MpiTest, ::testing::Values(MpiKind::kOpenMpi, MpiKind::kMpich),
                         [](const auto& param) { return MpiKindName(param.param); });

TEST_P(MpiTest, LargeReductionsHaveTheBitsOfTheTree) {
  Expect(Ranks(3), "LargeReductionsHaveTheBitsOfTheTree");
}

TEST_P(MpiTest, LargeReductionsOverNodesHaveTheBitsOfTheTree) {
  Mpirun run = Ranks(4);
  run.environment = {{"ZEROTH_TEST_RANKS_PER_NODE", "2"}};
  Expect(run, "LargeReductionsHaveTheBitsOfTheTree");
}

TEST_P(MpiTest, ANodeSendsTheBytesOfARing) {
  Mpirun run = Ranks(8);
  run.environment = {{"ZEROTH_TEST_RANKS_PER_NODE", "4"}};
  Expect(run, "ANodeSendsTheBytesOfARing");
}

TEST_P(MpiTest, AnotherWorldSizeIsRefused) { Expect(Ranks(2), "AnotherWorldSizeIsRefused"); }

TEST_P(MpiTest, AnUnknownLauncherDoesNotSayWhoIsOnThisMachine) {
  Expect(Ranks(2), "AnUnknownLauncherDoesNotSayWhoIsOnThisMachine");
}

TEST_P(MpiTest, ADroppedCallEndsTheOthersWait) {
  Expect(Ranks(2), "ADroppedCallEndsTheOthersWait");
}

TEST_P(MpiTest, AProgramThatHasStartedMpiItself) {
  Mpirun run = Ranks(2);
  const bool open_mpi = GetParam() == MpiKind::kOpenMpi;
  run.environment = {{"ZEROTH_MPI_LIBRARY", open_mpi ? "libmpi.so.40" : "libmpich.so.12"}};
  Expect(run, "AProgramThatHasStartedMpiForThreads");
  Expect(run, "AProgramThatHasStartedMpiForOneThread");
}

TEST_P(MpiTest, LibrariesThatAreNone) {
  Mpirun run = Ranks(1);
  run.environment = {{"ZEROTH_MPI_LIBRARY", "/nowhere/libmpi.so"}};
  Expect(run, "NoLibrary");
  run.environment = {{"ZEROTH_MPI_LIBRARY", "libm.so.6"}};
  Expect(run, "ALibraryThatIsNoMpi");
}

// With the wrong library, each rank would be a world of size 1.
TEST(MpiLibraryTest, TheLibraryOfAnotherLauncherIsRefused) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kMpich);
  Mpirun run;
  run.ranks = 2;
  run.program = {"core/comm/mpi/mpi_ranks"};
  run.environment = {{"ZEROTH_MPI_LIBRARY", "libmpich.so.12"}};
  const std::string name = "MpiRanks.TheLibraryOfAnotherLauncher";
  run.program.push_back(absl::StrCat("--gtest_filter=", name));
  const MpirunOutcome outcome = RunMpirun(run);
  // MPICH does not know Open MPI 5's launcher, and ends the program itself.
  const bool by_mpich = absl::StrContains(outcome.output, "unsupported PMI version PMIx");
  const bool by_us = outcome.exit_code == 0 &&
                     absl::StrContains(outcome.output, absl::StrCat("[       OK ] ", name));
  EXPECT_TRUE(by_mpich || by_us) << outcome.output;
}

TEST_P(MpiTest, OthersMeetByMpi) {
  Mpirun run = Ranks(3);
  // With this variable set, the ranks would know that they share a node.
  const std::string local =
      GetParam() == MpiKind::kOpenMpi ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "MPI_LOCALNRANKS";
  run.program.insert(run.program.begin(), {"/usr/bin/env", "-u", local});
  Expect(run, "OthersMeetByMpi");
}

TEST_P(MpiTest, StrangersHarmNobody) { Expect(Ranks(3), "StrangersHarmNobody"); }

// mpirun does not end the other ranks here; they end by themselves, and say why.
TEST_P(MpiTest, LostRanksAreNoticed) {
  if (GetParam() == MpiKind::kMpich) {
    GTEST_SKIP() << "MPICH's mpirun ends all ranks when one is killed";
  }
  for (const std::string test :
       {"MpiRanks.OneIsKilled", "MpiRanks.OneIsStopped", "MpiRanks.RankZeroIsStopped"}) {
    Mpirun run = Ranks(3);
    run.program.push_back(absl::StrCat("--gtest_filter=", test));
    run.keeps_others = true;
    const MpirunOutcome outcome = RunMpirun(run);
    EXPECT_TRUE(absl::StrContains(outcome.output, absl::StrCat("[       OK ] ", test)))
        << outcome.output;
    EXPECT_FALSE(absl::StrContains(outcome.output, "Failure")) << outcome.output;
  }
}

TEST_P(MpiTest, ARankThatNeverStartsMpiIsNotWaitedForForEver) {
  Mpirun run = Ranks(2);
  run.program.push_back("--gtest_filter=MpiRanks.OneNeverStartsMpi");
  run.keeps_others = GetParam() != MpiKind::kMpich;  // its mpirun leaves them alone
  const MpirunOutcome outcome = RunMpirun(run);
  EXPECT_TRUE(absl::StrContains(outcome.output, "[       OK ] MpiRanks.OneNeverStartsMpi"))
      << outcome.output;
  EXPECT_FALSE(absl::StrContains(outcome.output, "Failure")) << outcome.output;
}

// A process cannot recover from a hang inside MPI, so it ends with the reason.
TEST_P(MpiTest, ARankThatHangsInsideMpiEndsItself) {
  if (GetParam() == MpiKind::kMpich) {
    GTEST_SKIP() << "MPICH's mpirun ends all ranks when one fails";
  }
  Mpirun run = Ranks(3);
  run.program.push_back("--gtest_filter=MpiRanks.OneHangsInsideMpi");
  run.keeps_others = true;
  const MpirunOutcome outcome = RunMpirun(run);
  for (const char* words : {"[       OK ] MpiRanks.OneHangsInsideMpi", "rank 1: DEADLINE_EXCEEDED",
                            "this process ends", "this rank's own work has not returned",
                            "all_reduce 'for ever'", "has not come back from it; it was in MPI_"}) {
    EXPECT_TRUE(absl::StrContains(outcome.output, words)) << words << " in\n" << outcome.output;
  }
  EXPECT_FALSE(absl::StrContains(outcome.output, "Failure")) << outcome.output;
}

TEST(MpiLibraryTest, TheLaunchersLibraryComesFirst) {
  using Variables = std::map<std::string, std::string>;
  const auto first = [](const Variables& variables) {
    return mpi::Library::Candidates([&](const std::string& name) {
             const auto found = variables.find(name);
             return found == variables.end() ? std::nullopt
                                             : std::optional<std::string>(found->second);
           })
        .front();
  };
  EXPECT_EQ(first({}), "libmpi.so.40");
  EXPECT_EQ(first({{"OMPI_COMM_WORLD_RANK", "0"}}), "libmpi.so.40");
  EXPECT_EQ(first({{"PMI_RANK", "0"}}), "libmpi.so.12");
  // Open MPI under srun --mpi=pmi2.
  EXPECT_EQ(first({{"PMI_RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "0"}}), "libmpi.so.40");
  EXPECT_EQ(first({{"PMI_RANK", "0"}, {"ZEROTH_MPI_LIBRARY", "/opt/mpi.so"}}), "/opt/mpi.so");
}

}  // namespace
}  // namespace zeroth::testing
