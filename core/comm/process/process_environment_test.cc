// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/process_environment.h"

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<ProcessEnvironment> Read(const Variables& variables) {
  return ProcessEnvironment::Read([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

void ExpectRefused(const Variables& variables, const std::vector<std::string>& words) {
  const absl::Status status = Read(variables).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(status.message(), word)) << word << " in " << status;
  }
}

TEST(ProcessEnvironmentTest, NothingSetIsAWorldOfOne) {
  const auto environment = Read({{"HOME", "/root"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->world_size, 1);
  EXPECT_EQ(environment->rank, 0);
  EXPECT_EQ(environment->master_port, 0);
  EXPECT_EQ(environment->launcher, "none");
}

TEST(ProcessEnvironmentTest, Torchrun) {
  Variables variables = {{"RANK", "5"},           {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "gpu0"}, {"MASTER_PORT", "29400"}};
  auto environment = Read(variables);
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->rank, 5);
  EXPECT_EQ(environment->world_size, 8);
  EXPECT_EQ(environment->local_rank, 1);
  EXPECT_EQ(environment->local_world_size, 4);
  EXPECT_EQ(environment->master_addr, "gpu0");
  EXPECT_EQ(environment->master_port, 29400);
  EXPECT_EQ(environment->launcher, "torchrun");

  // torchrun listens on its port itself.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  environment = Read(variables);
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment->master_port, 29401);
  variables["ZEROTH_STORE_PORT"] = "7777";
  environment = Read(variables);
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment->master_port, 7777);
}

TEST(ProcessEnvironmentTest, MpirunOnOneNodeNeedsNothingElse) {
  const auto environment = Read({{"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->rank, 3);
  EXPECT_EQ(environment->local_rank, 3);
  EXPECT_EQ(environment->master_addr, "127.0.0.1");
  EXPECT_EQ(environment->master_port, ProcessEnvironment::kDefaultMasterPort);
}

TEST(ProcessEnvironmentTest, MpirunOverNodesKnowsTheAddress) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  auto environment = Read(variables);
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_TRUE(environment->address_by_launcher);
  // The user's setting takes precedence.
  variables["MASTER_ADDR"] = "node7";
  environment = Read(variables);
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_FALSE(environment->address_by_launcher);
  EXPECT_EQ(environment->master_addr, "node7");
  variables["ZEROTH_RENDEZVOUS_FILE"] = "/shared/here";
  environment = Read(variables);
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_FALSE(environment->address_by_launcher);
  EXPECT_EQ(environment->rendezvous_file, "/shared/here");
}

TEST(ProcessEnvironmentTest, MpiexecOfMpich) {
  Variables variables = {{"PMI_RANK", "3"},
                         {"PMI_SIZE", "4"},
                         {"MPI_LOCALRANKID", "1"},
                         {"MPI_LOCALNRANKS", "2"},
                         // It has started one process on each node by srun.
                         {"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_STEP_ID", "0"}};
  auto environment = Read(variables);
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->launcher, "mpiexec");
  EXPECT_EQ(environment->rank, 3);
  EXPECT_EQ(environment->world_size, 4);
  EXPECT_EQ(environment->local_rank, 1);
  EXPECT_EQ(environment->local_world_size, 2);
  EXPECT_TRUE(environment->address_by_launcher);
  // srun --mpi=pmi2 has started the ranks themselves.
  variables["SLURM_PROCID"] = "3";
  variables["SLURM_NTASKS"] = "4";
  variables["SLURM_STEP_NODELIST"] = "node[07-08]";
  environment = Read(variables);
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->launcher, "srun");
  EXPECT_EQ(environment->master_addr, "node07");
}

TEST(ProcessEnvironmentTest, TorchrunOverNodesNeedsAnAddress) {
  ExpectRefused(
      {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}},
      {"MASTER_ADDR is missing", "4 ranks", "2 are on this one", "ZEROTH_RENDEZVOUS_FILE"});
}

TEST(ProcessEnvironmentTest, RanksAreKnownWithoutAnAddress) {
  const auto environment = ProcessEnvironment::ReadRanks([](const std::string& name) {
    const Variables variables = {{"RANK", "1"}, {"WORLD_SIZE", "4"}};
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->rank, 1);
  EXPECT_TRUE(environment->HasLauncher());
}

TEST(ProcessEnvironmentTest, SrunMeetsOnItsFirstNode) {
  Variables variables = {{"SLURM_PROCID", "2"},
                         {"SLURM_NTASKS", "4"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "123456"}};
  for (const auto& [list, first] : Variables{{"node[07-09,12],login", "node07"},
                                             {"node[3,5]", "node3"},
                                             {"a100,b200", "a100"},
                                             {"rack1-[1-2]-ib", "rack1-1-ib"},
                                             {"solo", "solo"}}) {
    variables["SLURM_STEP_NODELIST"] = list;
    const auto environment = Read(variables);
    ASSERT_TRUE(environment.ok()) << environment.status();
    EXPECT_EQ(environment->rank, 2);
    EXPECT_EQ(environment->master_addr, first);
    EXPECT_EQ(environment->master_port, 23456);
    EXPECT_EQ(environment->launcher, "srun");
  }
}

// --ntasks-per-node is a request, for a job or for a full node; the ranks of a node may be fewer.
TEST(ProcessEnvironmentTest, SrunCountsTheRanksOfEachNode) {
  const auto ranks_here = [](const std::string& node, const std::string& counts) {
    Variables variables = {{"SLURM_PROCID", "2"},          {"SLURM_NTASKS", "19"},
                           {"SLURM_LOCALID", "0"},         {"SLURM_STEP_ID", "0"},
                           {"SLURM_NTASKS_PER_NODE", "6"}, {"SLURM_STEP_NODELIST", "n[1-3]"},
                           {"SLURM_NODEID", node},         {"SLURM_STEP_TASKS_PER_NODE", counts}};
    const auto environment = Read(variables);
    EXPECT_TRUE(environment.ok()) << environment.status();
    return environment.ok() ? environment->local_world_size : -1;
  };
  EXPECT_EQ(ranks_here("0", "8(x2),3"), 8);
  EXPECT_EQ(ranks_here("1", "8(x2),3"), 8);
  EXPECT_EQ(ranks_here("2", "8(x2),3"), 3);
  EXPECT_EQ(ranks_here("1", "7,8,4"), 8);
  EXPECT_EQ(ranks_here("0", "19"), 19);
  for (const char* counts : {"", "8(x2", "8(xy)", "eight", "8(x1)", "0(x3)", "20(x3)"}) {
    EXPECT_EQ(ranks_here("1", counts), 6) << counts;
  }
  EXPECT_EQ(ranks_here("none", "8(x2),3"), 6);
  // A step may have fewer ranks on a node than --ntasks-per-node requested for the job.
  const auto step = Read({{"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "2"},
                          {"SLURM_STEP_ID", "1"},
                          {"SLURM_NTASKS_PER_NODE", "8"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->local_world_size, 2);
}

TEST(ProcessEnvironmentTest, JobsAreRecognised) {
  const auto id_of = [](const Variables& variables) {
    const auto environment = Read(variables);
    return environment.ok() ? environment->job_id : environment.status().ToString();
  };
  Variables torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(id_of(torchrun), "");
  torchrun["TORCHELASTIC_RUN_ID"] = "7";
  EXPECT_EQ(id_of(torchrun), "7");
  // The agents of several nodes count restarts separately.
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(id_of(torchrun), "7");
  torchrun["LOCAL_WORLD_SIZE"] = "1";
  EXPECT_EQ(id_of(torchrun), "7.2");
  // "none" is torchrun's value if the user has not named the run.
  torchrun["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(id_of(torchrun), "");
  torchrun["TORCHELASTIC_RUN_ID"] = "";
  EXPECT_EQ(id_of(torchrun), "");
  EXPECT_EQ(id_of({{"OMPI_COMM_WORLD_RANK", "0"},
                   {"OMPI_COMM_WORLD_SIZE", "1"},
                   {"PMIX_NAMESPACE", "1234"}}),
            "1234");
  Variables srun = {{"SLURM_PROCID", "0"},
                    {"SLURM_NTASKS", "1"},
                    {"SLURM_STEP_ID", "2"},
                    {"SLURM_JOB_ID", "123457"}};
  EXPECT_EQ(id_of(srun), "123457.2");
  srun["SLURM_HET_JOB_ID"] = "123456";
  EXPECT_EQ(id_of(srun), "123456.2");
  const auto environment = Read({{"ZEROTH_JOB_SECRET", "hush"}});
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment->job_secret, "hush");
}

TEST(ProcessEnvironmentTest, ABatchScriptIsNotARank) {
  const auto environment = Read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment->world_size, 1);
}

TEST(ProcessEnvironmentTest, WhatIsWrongIsNamed) {
  ExpectRefused({{"RANK", "0"}}, {"WORLD_SIZE is missing", "torchrun"});
  ExpectRefused({{"WORLD_SIZE", "2"}}, {"RANK is missing"});
  ExpectRefused({{"RANK", "two"}, {"WORLD_SIZE", "2"}}, {"RANK is 'two'", "from 0 to 1"});
  ExpectRefused({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK is '2'", "from 0 to 1"});
  ExpectRefused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE is '0'"});
  ExpectRefused(
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
      {"LOCAL_RANK is 2", "this machine has 2 ranks (LOCAL_WORLD_SIZE)"});
  ExpectRefused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "0"}},
                {"MASTER_PORT is '0'"});
}

}  // namespace
}  // namespace zeroth
