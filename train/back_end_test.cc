// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/train/run_spec.h"

namespace zeroth {
namespace {

struct Case {
  const char* comm;
  const char* device;
  const char* launcher;
  int world_size;
  const char* expected;  // the choice, or words of the refusal
};

auto Chosen(const Case& one) {
  TrainOptions options;
  options.comm = one.comm;
  options.device = one.device;
  ProcessEnvironment ranks;
  ranks.launcher = one.launcher;
  ranks.world_size = one.world_size;
  return ChooseBackEnd(options, ranks);
}

TEST(BackEndTest, GoesByWhatStartedTheProcess) {
  const std::vector<Case> cases = {
      {"auto", "cpu", "none", 1, "local"},   {"auto", "cuda", "none", 1, "local"},
      {"auto", "cpu", "mpirun", 1, "local"}, {"auto", "cpu", "mpirun", 2, "mpi"},
      {"auto", "cpu", "mpiexec", 2, "mpi"},  {"auto", "cpu", "srun", 2, "mpi"},
      {"auto", "cuda", "srun", 2, "nccl"},   {"auto", "cuda", "torchrun", 2, "nccl"},
      {"local", "cpu", "none", 1, "local"},  {"local", "cpu", "srun", 1, "local"},
      {"mpi", "cpu", "none", 1, "mpi"},      {"nccl", "cuda", "mpirun", 2, "nccl"},
  };
  for (const Case& one : cases) {
    const auto chosen = Chosen(one);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(*chosen, one.expected) << one.comm << " " << one.device << " " << one.launcher;
  }
}

TEST(BackEndTest, WholeRunsSideBySideAreRefused) {
  const std::vector<Case> cases = {
      {"local", "cpu", "mpirun", 2, "use --comm=mpi"},
      {"local", "cpu", "mpiexec", 2, "use --comm=mpi"},
      {"local", "cpu", "srun", 4, "use --comm=mpi"},
      {"local", "cuda", "torchrun", 8, "use --comm=nccl"},
      {"local", "cpu", "torchrun", 2, "mpirun or srun"},
      {"auto", "cpu", "torchrun", 2, "cannot talk to each other"},
  };
  for (const Case& one : cases) {
    const auto chosen = Chosen(one);
    ASSERT_FALSE(chosen.ok()) << *chosen;
    const std::string message(chosen.status().message());
    for (const std::string& words :
         {std::string("--comm=") + one.comm, std::string(one.launcher) + " has started",
          std::string(one.expected)}) {
      EXPECT_NE(message.find(words), std::string::npos) << words << " in " << message;
    }
  }
}

}  // namespace
}  // namespace zeroth
