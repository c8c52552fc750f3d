// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Closed pipes and file limits, whose signals would kill the trainer: it reports an error that says
// what happened, or ignores them.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

bool HasEnded(pid_t child) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

// A token shard of llm.c.
void WriteTokens(const fs::path& path, size_t count) {
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<int32_t>(count);
  std::vector<uint16_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<uint16_t>(i * i % 61);
  std::string file(reinterpret_cast<const char*>(header.data()), 1024);
  file.append(reinterpret_cast<const char*>(tokens.data()), 2 * count);
  Write(path, file);
}

TEST(TrainSignalsTest, DataThatAreCutShortInMidRunAreAnError) {
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "log";
  const fs::path data = Scratch() / "tokens.bin";
  WriteTokens(data, 1'000'000);
  const pid_t child =
      Start(With(Reference(out), {"--data=" + data.string(), "--shuffle=true", "--world_size=2",
                                  "--batch_size=2", "--steps=1000000"}),
            log);
  while (Metrics(out).empty() && !HasEnded(child)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fs::resize_file(data, 4096);
  EXPECT_EQ(Wait(child), 1) << Logs(log);
  const std::string errors = Read(ErrorLog(log));
  EXPECT_NE(errors.find(data.string() + ": ends at or before byte "), std::string::npos) << errors;
  EXPECT_NE(errors.find("it has been truncated"), std::string::npos) << errors;
}

TEST(TrainSignalsTest, NobodyNeedReadWhatItPrints) {
  signal(SIGPIPE, SIG_DFL);
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "pipe";
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  const pid_t child = Start(Reference(out), log);
  const int pipe = open(log.c_str(), O_RDONLY);
  ASSERT_GE(pipe, 0);
  char first = 0;
  EXPECT_EQ(read(pipe, &first, 1), 1);
  close(pipe);
  EXPECT_EQ(Wait(child), 0) << Read(ErrorLog(log));
  EXPECT_TRUE(fs::exists(out / "final" / "model.safetensors"));
}

TEST(TrainSignalsTest, ALimitOnTheSizeOfFilesIsAnError) {
  signal(SIGXFSZ, SIG_DFL);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 20'000;  // less than the model
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Outcome run = RunTrainer(Reference(Scratch() / "out"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(run.exit_code, 1) << run.output;
  EXPECT_NE(run.errors.find("File too large"), std::string::npos) << run.errors;
}

// A checkpoint that could not be saved is saved again when the evaluation after its step is
// interrupted.
TEST(TrainSignalsTest, AnInterruptedEvaluationSavesWhatCouldNotBeSavedBefore) {
  signal(SIGXFSZ, SIG_DFL);
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "log";
  const fs::path data = Scratch() / "held_out.bin";
  WriteTokens(data, 10'000'000);  // an evaluation of minutes
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 700'000;  // more than the model, and less than a checkpoint
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const pid_t child = Start(
      With(Reference(out), {"--eval_data=" + data.string(), "--world_size=1", "--eval_every=2",
                            "--eval_batches=1000000", "--checkpoint_every=2"}),
      log);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  while (Logs(log).find("File too large") == std::string::npos && !HasEnded(child)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(prlimit(child, RLIMIT_FSIZE, &before, nullptr), 0);
  ASSERT_EQ(kill(child, SIGTERM), 0);
  EXPECT_EQ(Wait(child), 75) << Logs(log);
  EXPECT_NE(Logs(log).find("checkpoint in " + (out / "step-00000002").string()), std::string::npos)
      << Logs(log);
  EXPECT_TRUE(fs::exists(out / "step-00000002")) << Logs(log);
}

}  // namespace
