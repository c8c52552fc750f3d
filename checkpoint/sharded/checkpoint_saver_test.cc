// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_saver.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/testing/state.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Spread;
using testing::TestState;

constexpr int kRanks = 3;
using Body =
    std::function<absl::Status(Communicator& world, TestState& state, CheckpointSaver& saver)>;

// Runs `body` on ranks that share a saver of these options.
absl::Status RunSaver(const CheckpointSaverOptions& options, const Body& body) {
  const Spread spread{"full_shard", kRanks};
  return RunToyRanks(kRanks, [&](Communicator& world, Device& device) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TestState state,
                            TestState::Create(world, device, spread, UniformUnits(3)));
    ZEROTH_ASSIGN_OR_RETURN(const auto saver, CheckpointSaver::Create(world, device, options));
    return body(world, state, *saver);
  });
}

absl::StatusOr<bool> SaveVersion(TestState& state, CheckpointSaver& saver, int64_t step,
                                 bool last = false) {
  state.Fill(static_cast<int>(step));
  return saver.Save(step, nlohmann::json::object(),
                    OwnedPieces(*state.sharding, state.optimizer->states()), last);
}

// Expects that the checkpoint of `step` holds the values of SaveVersion.
absl::Status CheckVersion(const std::string& directory, TestState& state, int64_t step) {
  ZEROTH_ASSIGN_OR_RETURN(const auto reader,
                          CheckpointReader::Open(CheckpointPath(directory, step)));
  ZEROTH_TOY_EXPECT(reader->index().step == step);
  ZEROTH_RETURN_IF_ERROR(LoadState(*reader, *state.sharding, state.optimizer->states()).status());
  return state.Check(static_cast<int>(step));
}

CheckpointSaverOptions OptionsIn(const TemporaryDirectory& dir, bool async) {
  CheckpointSaverOptions options;
  options.directory = dir.File("run");
  options.async = async;
  return options;
}

TEST(CheckpointSaverTest, KeepsTheNewestAndNothingElse) {
  for (const bool async : {false, true}) {
    const TemporaryDirectory dir;
    dir.Write("run/.unfinished-step-00000009/rank", "of a run that was killed");
    CheckpointSaverOptions options = OptionsIn(dir, async);
    options.retention = {.keep_last = 2, .keep_every = 20};
    std::vector<int64_t> completed;
    EXPECT_EQ(
        RunSaver(
            options,
            [&](Communicator& world, TestState& state, CheckpointSaver& saver) -> absl::Status {
              for (const int64_t step : {10, 20, 30, 40, 50}) {
                ZEROTH_ASSIGN_OR_RETURN(const bool saved, SaveVersion(state, saver, step));
                ZEROTH_TOY_EXPECT(saved);
              }
              ZEROTH_RETURN_IF_ERROR(saver.Wait());
              ZEROTH_RETURN_IF_ERROR(saver.Wait());
              ZEROTH_TOY_EXPECT(saver.IsDone() && saver.progress() == 1);
              if (world.rank() == 0) {
                for (const CompletedSave& save : saver.TakeCompleted()) {
                  completed.push_back(save.step);
                }
              }
              for (const int64_t step : {20, 40, 50}) {
                ZEROTH_RETURN_IF_ERROR(CheckVersion(dir.File("run"), state, step));
              }
              return absl::OkStatus();
            }),
        absl::OkStatus());
    EXPECT_THAT(completed, ElementsAre(10, 20, 30, 40, 50));
    EXPECT_THAT(*ListCheckpoints(dir.File("run")), ElementsAre(20, 40, 50));
    // Nothing else is there, hidden or not.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.File("run")), {}), 3);
    EXPECT_EQ(
        std::distance(std::filesystem::directory_iterator(CheckpointPath(dir.File("run"), 50)), {}),
        kRanks + 1);
  }
}

TEST(CheckpointSaverTest, TheStateMayChangeAsSoonAsSaveReturns) {
  const TemporaryDirectory dir;
  const CheckpointSaverOptions options = OptionsIn(dir, /*async=*/true);
  EXPECT_EQ(RunSaver(options,
                     [&](Communicator&, TestState& state, CheckpointSaver& saver) -> absl::Status {
                       ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
                       state.Fill(1000);
                       ZEROTH_RETURN_IF_ERROR(saver.Wait());
                       return CheckVersion(options.directory, state, 1);
                     }),
            absl::OkStatus());
}

TEST(CheckpointSaverTest, SkippedSavesAreSkippedByAll) {
  const TemporaryDirectory dir;
  CheckpointSaverOptions options = OptionsIn(dir, /*async=*/true);
  options.skip_when_busy = true;
  options.host_buffers = 1;
  options.retention.keep_last = 0;
  std::vector<std::vector<int64_t>> saved(kRanks);
  EXPECT_EQ(
      RunSaver(options,
               [&](Communicator& world, TestState& state, CheckpointSaver& saver) -> absl::Status {
                 for (int64_t step = 1; step <= 40; ++step) {
                   ZEROTH_ASSIGN_OR_RETURN(const bool now, SaveVersion(state, saver, step));
                   if (now) saved[static_cast<size_t>(world.rank())].push_back(step);
                 }
                 // The last save waits for a busy writer.
                 ZEROTH_ASSIGN_OR_RETURN(const bool last, SaveVersion(state, saver, 41, true));
                 if (last) saved[static_cast<size_t>(world.rank())].push_back(41);
                 return saver.Wait();
               }),
      absl::OkStatus());
  EXPECT_EQ(saved[0], *ListCheckpoints(options.directory));
  EXPECT_EQ(saved[0], saved[1]);
  EXPECT_EQ(saved[0], saved[2]);
  EXPECT_EQ(saved[0].front(), 1);
  EXPECT_EQ(saved[0].back(), 41);
}

TEST(CheckpointSaverTest, AStepIsSavedOnce) {
  for (const bool async : {false, true}) {
    const TemporaryDirectory dir;
    const CheckpointSaverOptions options = OptionsIn(dir, async);
    EXPECT_EQ(
        RunSaver(options,
                 [&](Communicator&, TestState& state, CheckpointSaver& saver) -> absl::Status {
                   ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 7).status());
                   ZEROTH_TOY_EXPECT(absl::IsAlreadyExists(SaveVersion(state, saver, 7).status()));
                   ZEROTH_RETURN_IF_ERROR(saver.Wait());
                   return CheckVersion(options.directory, state, 7);
                 }),
        absl::OkStatus());
  }
}

TEST(CheckpointSaverTest, OptionsAreChecked) {
  const TemporaryDirectory dir;
  const auto create = [](const CheckpointSaverOptions& options) {
    return RunSaver(options, [](Communicator&, TestState&, CheckpointSaver&) {
      return absl::InternalError("created");
    });
  };
  CheckpointSaverOptions options = OptionsIn(dir, true);
  options.host_buffers = 0;
  EXPECT_THAT(std::string(create(options).message()), HasSubstr("host_buffers is 0"));
  options = OptionsIn(dir, true);
  options.retention.keep_last = -1;
  EXPECT_THAT(std::string(create(options).message()), HasSubstr("keep_last = -1"));
  options.retention.keep_last = 1;
  options.directory = "";
  EXPECT_THAT(std::string(create(options).message()), HasSubstr("no name"));
  options.directory = dir.Write("file", "");
  EXPECT_THAT(std::string(create(options).message()), HasSubstr(dir.File("file")));
  options.directory = dir.File("no/parent");
  EXPECT_EQ(create(options).code(), absl::StatusCode::kNotFound);
}

// The largest file that this process may write, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(CheckpointSaverTest, ADiskThatIsFullIsReportedOnEveryRankAndCostsNothing) {
  for (const bool async : {false, true}) {
    const TemporaryDirectory dir;
    const CheckpointSaverOptions options = OptionsIn(dir, async);
    std::vector<absl::Status> statuses(kRanks);
    EXPECT_EQ(RunSaver(options,
                       [&](Communicator& world, TestState& state,
                           CheckpointSaver& saver) -> absl::Status {
                         ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         absl::Status& status = statuses[static_cast<size_t>(world.rank())];
                         {
                           std::unique_ptr<FileSizeLimit> limit;
                           if (world.rank() == 0) limit = std::make_unique<FileSizeLimit>(4000);
                           // Nobody saves before the limit is there, or without it.
                           ZEROTH_RETURN_IF_ERROR(saver.Wait());
                           status = SaveVersion(state, saver, 2).status();
                           if (status.ok()) status = saver.Wait();
                           ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         }
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         ZEROTH_RETURN_IF_ERROR(CheckVersion(options.directory, state, 1));
                         // Once there is room, saving works again.
                         ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 2).status());
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         return CheckVersion(options.directory, state, 2);
                       }),
              absl::OkStatus());
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(status, statuses[0]);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank-00000-of-00003.safetensors"));
    }
    EXPECT_THAT(*ListCheckpoints(options.directory), ElementsAre(1, 2));
  }
}

// Makes permissions hold for root too, in this thread and those that it starts, while it lives.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    syscall(SYS_capget, &header_, before_);
    __user_cap_data_struct without[2] = {before_[0], before_[1]};
    without[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    syscall(SYS_capset, &header_, without);
  }
  ~OrdinaryUser() { syscall(SYS_capset, &header_, before_); }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

TEST(CheckpointSaverTest, AReadOnlyDirectoryIsReported) {
  for (const bool async : {false, true}) {
    const TemporaryDirectory dir;
    const CheckpointSaverOptions options = OptionsIn(dir, async);
    const OrdinaryUser user;
    EXPECT_EQ(RunSaver(options,
                       [&](Communicator& world, TestState& state,
                           CheckpointSaver& saver) -> absl::Status {
                         if (world.rank() == 0) chmod(options.directory.c_str(), 0555);
                         const absl::Status status = SaveVersion(state, saver, 1).status();
                         ZEROTH_TOY_EXPECT(absl::IsPermissionDenied(status));
                         ZEROTH_TOY_EXPECT(absl::StrContains(status.message(), options.directory));
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         if (world.rank() == 0) chmod(options.directory.c_str(), 0755);
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
                         return saver.Wait();
                       }),
              absl::OkStatus());
    EXPECT_THAT(*ListCheckpoints(options.directory), ElementsAre(1));
  }
}

// In a separate process: a file system that is really full, where one may be mounted. The process
// exits with 0, or kNoMount.
constexpr int kNoMount = 77;

int FillATmpfs(const TemporaryDirectory& dir, bool async) {
  const bool is_alone = unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  // Room for one checkpoint of some 70 KiB in all, not for two.
  if (!is_alone || mount("small", dir.path().c_str(), "tmpfs", 0, "size=112k") != 0) {
    return kNoMount;
  }
  const CheckpointSaverOptions options = OptionsIn(dir, async);
  const absl::Status status = RunSaver(
      options, [&](Communicator&, TestState& state, CheckpointSaver& saver) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
        ZEROTH_RETURN_IF_ERROR(saver.Wait());
        absl::Status full = SaveVersion(state, saver, 2).status();
        if (full.ok()) full = saver.Wait();
        ZEROTH_TOY_EXPECT(absl::IsResourceExhausted(full));
        ZEROTH_TOY_EXPECT(absl::StrContains(full.message(), "No space left on device"));
        return CheckVersion(options.directory, state, 1);
      });
  if (!status.ok()) std::cerr << status << "\n";
  const auto left = ListCheckpoints(options.directory);
  return status.ok() && left.ok() && *left == std::vector<int64_t>{1} ? 0 : 1;
}

TEST(CheckpointSaverTest, AFileSystemWithoutSpaceIsReported) {
  for (const bool async : {false, true}) {
    const TemporaryDirectory dir;
    const pid_t child = fork();
    if (child == 0) _exit(FillATmpfs(dir, async));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "a tmpfs cannot be mounted here";
    EXPECT_EQ(WEXITSTATUS(status), 0) << (async ? "async" : "sync");
  }
}

// The failed saves that all ranks report, by step.
std::vector<int64_t> FailedSteps(CheckpointSaver& saver) {
  std::vector<int64_t> steps;
  for (const FailedSave& save : saver.TakeFailed()) {
    EXPECT_FALSE(save.status.ok());
    steps.push_back(save.step);
  }
  return steps;
}

TEST(CheckpointSaverTest, AFailedSaveDoesNotStopTheNextOne) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async ? "async" : "sync");
    const TemporaryDirectory dir;
    const CheckpointSaverOptions options = OptionsIn(dir, async);
    EXPECT_EQ(
        RunSaver(
            options,
            [&](Communicator& world, TestState& state, CheckpointSaver& saver) -> absl::Status {
              ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
              ZEROTH_RETURN_IF_ERROR(saver.Wait());
              {
                std::unique_ptr<FileSizeLimit> limit;
                if (world.rank() == 0) limit = std::make_unique<FileSizeLimit>(4000);
                ZEROTH_RETURN_IF_ERROR(saver.Wait());
                for (const int64_t step : {2, 3}) {
                  ZEROTH_TOY_EXPECT(SaveVersion(state, saver, step).ok() == async);
                }
                ZEROTH_TOY_EXPECT(saver.Wait().ok() != async);
              }
              ZEROTH_RETURN_IF_ERROR(saver.Wait());
              ZEROTH_TOY_EXPECT(saver.failures_in_a_row() == 2);
              ZEROTH_TOY_EXPECT((FailedSteps(saver) == std::vector<int64_t>{2, 3}));
              ZEROTH_TOY_EXPECT(FailedSteps(saver).empty());
              ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 4).status());
              ZEROTH_RETURN_IF_ERROR(saver.Wait());
              ZEROTH_TOY_EXPECT(saver.failures_in_a_row() == 0 && FailedSteps(saver).empty());
              return CheckVersion(options.directory, state, 4);
            }),
        absl::OkStatus());
    EXPECT_THAT(*ListCheckpoints(options.directory), ElementsAre(1, 4));
    // Nothing is left of the failed ones.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.File("run")), {}), 2);
  }
}

TEST(CheckpointSaverTest, AFailureInTheBackgroundDoesNotFailTheNextSave) {
  const TemporaryDirectory dir;
  const CheckpointSaverOptions options = OptionsIn(dir, /*async=*/true);
  EXPECT_EQ(
      RunSaver(options,
               [&](Communicator& world, TestState& state, CheckpointSaver& saver) -> absl::Status {
                 {
                   std::unique_ptr<FileSizeLimit> limit;
                   if (world.rank() == 0) limit = std::make_unique<FileSizeLimit>(4000);
                   ZEROTH_RETURN_IF_ERROR(saver.Wait());
                   ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 3).status());
                   while (!saver.IsDone()) usleep(1000);
                   // Every rank has reached this once rank 0 lifts the limit.
                   ZEROTH_TOY_EXPECT(absl::IsResourceExhausted(saver.Wait()));
                 }
                 ZEROTH_RETURN_IF_ERROR(saver.Wait());
                 ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 4).status());
                 ZEROTH_RETURN_IF_ERROR(saver.Wait());
                 ZEROTH_TOY_EXPECT((FailedSteps(saver) == std::vector<int64_t>{3}));
                 return CheckVersion(options.directory, state, 4);
               }),
      absl::OkStatus());
}

// Neither its shard nor the report of its failure can be written: rank 0, which would wait for one
// of the two, learns of it from the exchange.
TEST(CheckpointSaverTest, ARankThatCanWriteNothingKeepsNobodyWaiting) {
  const TemporaryDirectory dir;
  const CheckpointSaverOptions options = OptionsIn(dir, /*async=*/true);
  EXPECT_EQ(
      RunSaver(options,
               [&](Communicator& world, TestState& state, CheckpointSaver& saver) -> absl::Status {
                 {
                   std::unique_ptr<FileSizeLimit> limit;
                   if (world.rank() == 0) limit = std::make_unique<FileSizeLimit>(10);
                   ZEROTH_RETURN_IF_ERROR(saver.Wait());
                   ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
                   ZEROTH_TOY_EXPECT(absl::IsResourceExhausted(saver.Wait()));
                 }
                 ZEROTH_RETURN_IF_ERROR(saver.Wait());
                 ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
                 ZEROTH_RETURN_IF_ERROR(saver.Wait());
                 return CheckVersion(options.directory, state, 1);
               }),
      absl::OkStatus());
}

TEST(CheckpointSaverTest, AnOldCheckpointThatCannotBeDeletedIsAWarning) {
  for (const bool async : {false, true}) {
    const TemporaryDirectory dir;
    CheckpointSaverOptions options = OptionsIn(dir, async);
    options.retention.keep_last = 1;
    const OrdinaryUser user;
    std::vector<std::string> warnings;
    EXPECT_EQ(RunSaver(options,
                       [&](Communicator& world, TestState& state,
                           CheckpointSaver& saver) -> absl::Status {
                         ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 1).status());
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         const std::string old = CheckpointPath(options.directory, 1);
                         if (world.rank() == 0) chmod(old.c_str(), 0555);
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         ZEROTH_RETURN_IF_ERROR(SaveVersion(state, saver, 2).status());
                         ZEROTH_RETURN_IF_ERROR(saver.Wait());
                         if (world.rank() == 0) {
                           warnings = saver.TakeWarnings();
                           ZEROTH_TOY_EXPECT(saver.TakeWarnings().empty());
                         }
                         return CheckVersion(options.directory, state, 2);
                       }),
              absl::OkStatus());
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("step-00000001"));
    // The next run tries again, and does not fail either.
    EXPECT_EQ(RunSaver(options,
                       [&](Communicator& world, TestState&, CheckpointSaver& saver) {
                         if (world.rank() == 0) warnings = saver.TakeWarnings();
                         return absl::OkStatus();
                       }),
              absl::OkStatus());
    EXPECT_EQ(warnings.size(), 1u);
    for (const auto& entry : std::filesystem::directory_iterator(options.directory)) {
      chmod(entry.path().c_str(), 0755);
    }
  }
}

}  // namespace
}  // namespace zeroth
