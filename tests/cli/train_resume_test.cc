// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares runs that are killed, damaged, moved to other ranks and resumed with an undisturbed run.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

// A run with everything that has a state: shuffled data, a schedule, a global batch of 8.
Flags Training(const fs::path& out, int steps = 12) {
  return {"--init_from=tests/testdata/gpt2_tiny",
          "--data=tests/testdata/gpt2_tiny/tokens.npy",
          "--seq_len=32",
          "--lr=1e-2",
          "--warmup_steps=3",
          "--world_size=2",
          "--batch_size=4",
          "--sample_tokens=0",
          "--threads_per_rank=1",
          "--steps=" + std::to_string(steps),
          "--out=" + out.string()};
}

// A step's line without times.
nlohmann::json Facts(const nlohmann::json& line) {
  nlohmann::json facts;
  for (const char* key : {"step", "loss", "grad_norm", "lr", "skipped_steps", "loss_scale",
                          "loss_zscore", "grad_norm_zscore", "eval_loss", "ema_eval_loss"}) {
    if (line.contains(key)) facts[key] = line[key];
  }
  return facts;
}

std::vector<nlohmann::json> Steps(const fs::path& out) {
  std::vector<nlohmann::json> steps;
  for (const nlohmann::json& line : Metrics(out)) {
    if (line.contains("step")) steps.push_back(Facts(line));
  }
  return steps;
}

std::vector<std::string> Checkpoints(const fs::path& out) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("step-", 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void ExpectSameRun(const fs::path& out, const fs::path& undisturbed) {
  const std::vector<nlohmann::json> expected = Steps(undisturbed);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(Steps(out), expected);
  for (const char* name : {"final/model.safetensors", "final_ema/model.safetensors"}) {
    EXPECT_EQ(fs::exists(out / name), fs::exists(undisturbed / name)) << name;
    EXPECT_TRUE(Read(out / name) == Read(undisturbed / name)) << name << " has other bits";
  }
}

// Without reaping it, so that its pid is not reused.
bool HasEnded(pid_t child) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == child;
}

// Waits until the run has finished this step or a later one and has a checkpoint, perhaps written
// in the background. Then kills it.
void KillAfterStep(pid_t child, const fs::path& out, size_t step) {
  const auto is_there = [&] {
    return Steps(out).size() >= step && fs::exists(out) && !Checkpoints(out).empty();
  };
  while (!is_there() && !HasEnded(child)) usleep(500);
  kill(child, SIGKILL);
  Wait(child);
}

void ExpectSaid(const Outcome& run, const std::string& words) {
  EXPECT_NE(run.output.find(words), std::string::npos) << words << "\nin\n" << run.output;
}

TEST(TrainResumeTest, AKilledRunResumesWithTheSameBits) {
  const std::vector<std::pair<std::string, Flags>> variants = {
      {"full_shard", {}},
      {"async", {"--async_checkpoint", "--strategy=shard_optimizer"}},
      {"no_shard", {"--strategy=no_shard", "--grad_accum=2"}},
      {"bf16", {"--strategy=shard_grad_op", "--param_dtype=bf16", "--reduce_dtype=bf16"}},
      {"fp16", {"--param_dtype=fp16", "--loss_scale_growth_interval=3"}},
      {"ema",
       {"--ema_decay=0.9", "--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_every=4",
        "--eval_batches=2"}},
      {"offload", {"--offload=all", "--ema_decay=0.9"}},
      {"skip", {"--lr=1e38", "--on_nonfinite=skip"}},
      {"8bit",
       {"--optimizer_state_dtype=float8_block", "--master_dtype=bf16", "--param_dtype=bf16",
        "--offload=optimizer"}},
  };
  for (const auto& [name, flags] : variants) {
    SCOPED_TRACE(name);
    const fs::path whole = Scratch() / (name + "_whole");
    const fs::path out = Scratch() / (name + "_killed");
    // Saving, and that at other steps, changes nothing.
    const Outcome undisturbed =
        RunTrainer(With(With(Training(whole), flags), {"--checkpoint_every=5"}));
    ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
    const Flags saving = With(With(Training(out), flags), {"--checkpoint_every=3"});
    KillAfterStep(Start(saving, Scratch() / "first"), out, 8);
    const Outcome rest = RunTrainer(With(saving, {"--resume=auto"}));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    ExpectSaid(rest, "after step ");
    ExpectSameRun(out, whole);
    EXPECT_EQ(Checkpoints(out), (std::vector<std::string>{"step-00000009", "step-00000012"}));
  }
}

TEST(TrainResumeTest, AFinishedRunThatIsStartedAgainKeepsItsMetrics) {
  const fs::path out = Scratch() / "out";
  const Flags flags = With(Training(out, 4), {"--checkpoint_every=2"});
  ASSERT_EQ(RunTrainer(flags).exit_code, 0);
  const std::vector<nlohmann::json> before = Metrics(out);
  ASSERT_EQ(before.size(), 5u);
  const Outcome again = RunTrainer(With(flags, {"--resume=auto"}));
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(Metrics(out), before);
}

TEST(TrainResumeTest, OutlierWindowsAreResumed) {
  // Longer than a window of 128 steps, so that scores depend on steps before the checkpoint.
  const Flags flags = {"--skip_loss_zscore=2.5", "--batch_size=1", "--world_size=1"};
  const fs::path whole = Scratch() / "whole";
  const fs::path out = Scratch() / "resumed";
  ASSERT_EQ(RunTrainer(With(Training(whole, 200), flags)).exit_code, 0);
  ASSERT_EQ(RunTrainer(With(With(Training(out, 200), flags), {"--checkpoint_every=150"})).exit_code,
            0);
  fs::remove_all(out / "step-00000200");
  ASSERT_EQ(RunTrainer(With(With(Training(out, 200), flags), {"--resume=auto"})).exit_code, 0);
  EXPECT_TRUE(Steps(whole).back().contains("loss_zscore")) << Steps(whole).back();
  ExpectSameRun(out, whole);
}

// Reads every byte of everything that is named a checkpoint.
void ExpectIntactCheckpoints(const fs::path& out) {
  if (!fs::exists(out)) return;
  for (const std::string& name : Checkpoints(out)) {
    const auto reader = zeroth::CheckpointReader::Open((out / name).string());
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (const absl::Status& damage : (*reader)->Verify()) ADD_FAILURE() << damage;
  }
}

// Kills at random moments, then lets one life be long enough. More of it: --runs_per_test.
TEST(TrainResumeTest, RandomKillsCostNothing) {
  const fs::path whole = Scratch() / "whole";
  const Outcome undisturbed = RunTrainer(Training(whole, 25));
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  int kills = 0;
  for (const bool async : {false, true}) {
    SCOPED_TRACE("seed " + std::to_string(seed) + (async ? ", async" : ", sync"));
    const fs::path out = Scratch() / (async ? "async" : "sync");
    Flags flags = With(Training(out, 25), {"--checkpoint_every=1", "--resume=auto"});
    if (async) flags.push_back("--async_checkpoint");
    // Each life is killed somewhere between its start and a few checkpoints later.
    for (int life = 0; life < 10; ++life) {
      const pid_t child = Start(flags, Scratch() / "life");
      const size_t steps = Steps(out).size() + random() % 3;
      while (Steps(out).size() < steps && !HasEnded(child)) usleep(200);
      usleep(random() % 30'000);
      kill(child, SIGKILL);
      const int exit_code = Wait(child);
      kills += exit_code == -1;
      // The last step may have been reached before; no life ends in an error.
      ASSERT_LE(exit_code, 0) << Logs(Scratch() / "life") << Logs(ErrorLog(Scratch() / "life"));
      ExpectIntactCheckpoints(out);
    }
    const Outcome last = RunTrainer(flags);
    ASSERT_EQ(last.exit_code, 0) << last.output;
    ExpectSameRun(out, whole);
    // Half-written files of the killed runs are gone.
    for (const auto& entry : fs::directory_iterator(out)) {
      EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
    }
  }
  // If the machine is so fast that nothing is killed, the test proves nothing.
  EXPECT_GE(kills, 10);
  std::cout << kills << " kills\n";
}

// A run with checkpoints at 4, 8 and 12 in `out`.
void MakeCheckpoints(const fs::path& out) {
  const Outcome run = RunTrainer(With(Training(out), {"--checkpoint_every=4", "--keep_last=0"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
}

void FlipByte(const fs::path& path, size_t from_the_end) {
  std::string bytes = Read(path);
  bytes[bytes.size() - from_the_end] ^= 1;
  Write(path, bytes);
}

TEST(TrainResumeTest, OtherRanksAndStrategiesResume) {
  const fs::path whole = Scratch() / "whole";
  ASSERT_EQ(RunTrainer(Training(whole)).exit_code, 0);
  const std::vector<nlohmann::json> expected = Steps(whole);
  const fs::path from = Scratch() / "from";
  ASSERT_EQ(RunTrainer(With(Training(from), {"--checkpoint_every=6", "--keep_last=0"})).exit_code,
            0);
  const auto checkpoint = "--resume=" + (from / "step-00000006").string();
  int place = 0;
  for (const Flags& flags :
       std::vector<Flags>{{"--strategy=no_shard"},
                          {"--offload=all"},
                          {"--world_size=4", "--batch_size=2"},
                          {"--world_size=1", "--batch_size=8"},
                          {"--world_size=4", "--global_batch_size=8"},
                          {"--world_size=4", "--batch_size=1", "--grad_accum=2",
                           "--strategy=hybrid_shard", "--shard_size=2"}}) {
    const fs::path out = Scratch() / std::to_string(place++);
    Flags given = With(With(Training(out), flags), {checkpoint});
    if (flags.back() == "--global_batch_size=8") std::erase(given, "--batch_size=4");
    const Outcome run = RunTrainer(given);
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const std::vector<nlohmann::json> steps = Steps(out);
    ASSERT_EQ(steps.size(), 6u);
    for (size_t i = 0; i < 6; ++i) {
      // The same global batch, summed in another order; with another strategy alone, in the same
      // order.
      const double loss = expected[i + 6]["loss"];
      EXPECT_EQ(steps[i]["step"], i + 7);
      if (flags.size() == 1) {
        EXPECT_EQ(steps[i], expected[i + 6]);
      } else {
        EXPECT_NEAR(steps[i]["loss"].get<double>(), loss, 2e-5 * loss) << flags[0] << " " << i;
        ExpectSaid(run, "--batch_size is ");
      }
    }
    EXPECT_EQ(run.output.find("the global batch is"), std::string::npos) << run.output;
  }
  // The same flags at twice the ranks are another training.
  const Outcome doubled = RunTrainer(
      With(Training(Scratch() / "doubled"), {checkpoint, "--world_size=4", "--steps=7"}));
  ASSERT_EQ(doubled.exit_code, 0) << doubled.output;
  ExpectSaid(doubled,
             "the global batch is 16 sequences a step, was 8; --global_batch_size=8 keeps");
  const Outcome uneven =
      RunTrainer(With(Training(Scratch() / "uneven"),
                      {checkpoint, "--batch_size=8", "--world_size=3", "--global_batch_size=8"}));
  EXPECT_EQ(uneven.exit_code, 1);
  EXPECT_NE(uneven.errors.find("--global_batch_size=8 over 3 ranks"), std::string::npos)
      << uneven.errors;
}

TEST(TrainResumeTest, AllThatDecidesResultsIsCompared) {
  const fs::path from = Scratch() / "from";
  ASSERT_EQ(RunTrainer(With(Training(from, 4),
                            {"--checkpoint_every=4", "--lora_rank=2", "--lora_alpha=8"}))
                .exit_code,
            0);
  const Flags resume = {"--resume=" + (from / "step-00000004").string(), "--lora_rank=2",
                        "--steps=5"};
  // The same tokens in another file are the same data; one different token makes different data.
  const fs::path data = Scratch() / "data.npy";
  std::string bytes = Read("tests/testdata/gpt2_tiny/tokens.npy");
  Write(data, bytes);
  const Outcome same = RunTrainer(With(With(Training(Scratch() / "same"), resume),
                                       {"--lora_alpha=8", "--data=" + data.string()}));
  ASSERT_EQ(same.exit_code, 0) << same.output;
  EXPECT_EQ(same.output.find("read from the beginning"), std::string::npos) << same.output;
  ExpectSaid(same, "with other flags: --steps is 5, was 4\n");
  bytes[bytes.size() - 400] ^= 1;
  Write(data, bytes);
  const fs::path model = Scratch() / "model";
  fs::copy("tests/testdata/gpt2_tiny", model, fs::copy_options::recursive);
  std::string config = Read(model / "config.json");
  const size_t place = config.find("1e-05");
  ASSERT_NE(place, std::string::npos);
  fs::permissions(model / "config.json", fs::perms::owner_write, fs::perm_options::add);
  Write(model / "config.json", config.replace(place, 5, "1e-06"));
  const Outcome other =
      RunTrainer(With(With(Training(Scratch() / "other"), resume),
                      {"--lora_alpha=4", "--data=" + data.string(), "--gradient_divide_factor=3",
                       "--keep_low_precision_grads=false", "--init_from=" + model.string()}));
  ASSERT_EQ(other.exit_code, 0) << other.output;
  for (const char* words :
       {"--lora_alpha is 4.0, was 8.0", "--gradient_divide_factor is 3.0, was 0.0",
        "--keep_low_precision_grads is false, was true", "--init_from is ",
        "are read from the beginning: --data: as many tokens, but other ones",
        "with another config of the model: layer_norm_epsilon is 1e-06, was 1e-05"}) {
    ExpectSaid(other, words);
  }
}

TEST(TrainResumeTest, ACheckpointThatMayBeIntactIsNeverPassedOver) {
  const fs::path out = Scratch() / "out";
  MakeCheckpoints(out);
  const fs::path newest = out / "step-00000012";
  const std::string index = Read(newest / "index.json");
  std::string newer = index;
  const size_t place = newer.find("\"version\": 1");
  ASSERT_NE(place, std::string::npos);
  Write(newest / "index.json", newer.replace(place, 12, "\"version\": 7"));
  const Flags resume = With(Training(out, 16), {"--checkpoint_every=4", "--resume=auto"});
  const Outcome run = RunTrainer(resume);
  EXPECT_EQ(run.exit_code, 1) << run.output;
  for (const char* words : {"version 7 of the format", "use a newer one",
                            "no older checkpoint was used", "--resume=DIRECTORY/step-N"}) {
    EXPECT_NE(run.errors.find(words), std::string::npos) << words << " in " << run.errors;
  }
  EXPECT_EQ(Checkpoints(out).size(), 3u);
  // An unreadable file is not skipped either.
  Write(newest / "index.json", index);
  const fs::path shard = newest / "rank-00001-of-00002.safetensors";
  fs::rename(shard, Scratch() / "shard");
  fs::create_symlink(shard.filename(), shard);
  EXPECT_EQ(RunTrainer(resume).exit_code, 1);
  EXPECT_EQ(Checkpoints(out).size(), 3u);
  fs::remove(shard);
  fs::rename(Scratch() / "shard", shard);
  const Outcome whole = RunTrainer(resume);
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  ExpectSaid(whole, "from " + newest.string() + ", after step 12");
}

TEST(TrainResumeTest, WhatWasSetAsideIsReportedAndCounted) {
  const fs::path out = Scratch() / "out";
  MakeCheckpoints(out);
  for (const char* earlier : {"set-aside-step-00000002", "set-aside-step-00000003"}) {
    fs::copy(out / "step-00000004", out / earlier);
  }
  FlipByte(out / "step-00000012/rank-00001-of-00002.safetensors", 100);
  const Outcome run =
      RunTrainer(With(Training(out), {"--checkpoint_every=4", "--keep_last=1", "--resume=auto"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "set aside by earlier runs in " + out.string() +
                      ": set-aside-step-00000002, set-aside-step-00000003");
  ExpectSaid(run, "deleted " + (out / "set-aside-step-00000002").string());
  EXPECT_FALSE(fs::exists(out / "set-aside-step-00000002"));
  EXPECT_FALSE(fs::exists(out / "set-aside-step-00000003"));
  EXPECT_TRUE(fs::exists(out / "set-aside-step-00000012"));
}

TEST(TrainResumeTest, ADirectoryOfALiveRunIsRefused) {
  const fs::path out = Scratch() / "out";
  const Flags flags = With(Training(out, 1'000'000), {"--checkpoint_every=2", "--resume=auto"});
  const pid_t living = Start(flags, Scratch() / "living");
  while (Steps(out).size() < 2 && !HasEnded(living)) usleep(500);
  const Outcome second = RunTrainer(flags);
  EXPECT_EQ(second.exit_code, 1) << second.output;
  EXPECT_NE(second.errors.find("another run that is alive writes there"), std::string::npos)
      << second.errors;
  EXPECT_FALSE(HasEnded(living)) << Logs(Scratch() / "living");
  kill(living, SIGKILL);
  Wait(living);
  const Outcome next = RunTrainer(With(flags, {"--steps=0"}));
  EXPECT_EQ(next.errors.find("another run"), std::string::npos) << next.errors;
}

TEST(TrainResumeTest, DamagedCheckpointsArePassedOver) {
  const fs::path out = Scratch() / "out";
  MakeCheckpoints(out);
  const fs::path whole = Scratch() / "whole";
  fs::copy(out, whole, fs::copy_options::recursive);
  FlipByte(out / "step-00000012/rank-00001-of-00002.safetensors", 100);
  fs::remove(out / "step-00000008/rank-00000-of-00002.safetensors");
  const Flags resume =
      With(Training(out), {"--checkpoint_every=4", "--keep_last=0", "--resume=auto"});
  const Outcome run = RunTrainer(resume);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "passing over " + (out / "step-00000012").string());
  ExpectSaid(run, "rank-00001-of-00002.safetensors: the bytes [");
  ExpectSaid(run, "passing over " + (out / "step-00000008").string());
  ExpectSaid(run, "from " + (out / "step-00000004").string() + ", after step 4");
  ExpectSameRun(out, whole);
  EXPECT_EQ(Checkpoints(out).size(), 3u);
  EXPECT_TRUE(fs::exists(out / "set-aside-step-00000012"));
  EXPECT_TRUE(fs::exists(out / "set-aside-step-00000008"));

  // A checkpoint requested by name is not replaced by another.
  FlipByte(out / "step-00000012/rank-00000-of-00002.safetensors", 1);
  const Outcome named =
      RunTrainer(With(Training(out), {"--resume=" + (out / "step-00000012").string()}));
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_NE(named.errors.find("are damaged"), std::string::npos) << named.errors;

  // With none left there is an error that names them all, and no start from scratch.
  for (const char* name : {"step-00000004", "step-00000008"}) {
    std::string index = Read(out / name / "index.json");
    Write(out / name / "index.json", index.substr(0, index.size() / 3));
  }
  const Outcome none = RunTrainer(resume);
  EXPECT_EQ(none.exit_code, 1);
  for (const char* words :
       {"no checkpoint is intact", "step-00000004", "step-00000008", "step-00000012"}) {
    EXPECT_NE(none.errors.find(words), std::string::npos) << none.errors;
  }
}

TEST(TrainResumeTest, ForeignShardsAndEditedIndexesArePassedOver) {
  const fs::path out = Scratch() / "out";
  MakeCheckpoints(out);
  const fs::path whole = Scratch() / "whole";
  fs::copy(out, whole, fs::copy_options::recursive);
  // A shard of another checkpoint, intact and as long as this checkpoint's own.
  fs::copy_file(out / "step-00000008/rank-00001-of-00002.safetensors",
                out / "step-00000012/rank-00001-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  std::string index = Read(out / "step-00000008/index.json");
  const size_t place = index.find("\"elements\"");
  ASSERT_NE(place, std::string::npos);
  index.replace(place, 10, "\"Elements\"");
  Write(out / "step-00000008/index.json", index);
  const Outcome run =
      RunTrainer(With(Training(out), {"--checkpoint_every=4", "--keep_last=0", "--resume=auto"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "passing over " + (out / "step-00000012").string());
  ExpectSaid(run, "rank-00001-of-00002.safetensors: a shard of another checkpoint");
  ExpectSaid(run, "passing over " + (out / "step-00000008").string());
  ExpectSaid(run, "from " + (out / "step-00000004").string() + ", after step 4");
  ExpectSameRun(out, whole);
}

TEST(TrainResumeTest, WhatDoesNotFitIsSaid) {
  const fs::path out = Scratch() / "out";
  MakeCheckpoints(out);
  const auto expect_error = [](const Flags& flags, const std::string& words) {
    const Outcome run = RunTrainer(flags);
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_NE(run.errors.find(words), std::string::npos) << words << " in " << run.errors;
  };
  // A second run would mix its files with these.
  expect_error(Training(out), "holds what an earlier run made");
  expect_error(With(Training(Scratch() / "new"), {"--resume=" + (Scratch() / "none").string()}),
               "no checkpoint there");
  expect_error(
      With(Training(Scratch() / "new"), {"--resume=" + (out / "step-00000005").string()}),
      "there is no such checkpoint; the newest there is " + (out / "step-00000012").string());
  const Flags other = {"--model=gpt2_nano",
                       "--data=tests/testdata/gpt2_tiny/tokens.npy",
                       "--seq_len=32",
                       "--steps=5",
                       "--world_size=1",
                       "--sample_tokens=0",
                       "--resume=" + (out / "step-00000004").string(),
                       "--out=" + (Scratch() / "other").string()};
  expect_error(other, "the checkpoint is of another model");
  const Outcome partial = RunTrainer(With(other, {"--allow_partial"}));
  EXPECT_EQ(partial.exit_code, 0) << partial.output;
  ExpectSaid(partial, "is not taken from the checkpoint");
}

TEST(TrainResumeTest, StateThatAnotherOptimizerLacksIsSaid) {
  const fs::path out = Scratch() / "out";
  MakeCheckpoints(out);
  const Outcome run =
      RunTrainer(With(Training(Scratch() / "other"),
                      {"--optimizer=muon", "--resume=" + (out / "step-00000004").string()}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  ExpectSaid(run, "\nresume    the optimizer's momentum of some parameters begin at zero");
}

TEST(TrainResumeTest, AFullDiskEndsTheRunInTheEndAndSparesWhatIsThere) {
  const fs::path out = Scratch() / "out";
  ASSERT_EQ(RunTrainer(With(Training(out, 4), {"--checkpoint_every=4"})).exit_code, 0);
  for (const char* async : {"--async_checkpoint=false", "--async_checkpoint=true"}) {
    rlimit before = {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit limit = before;
    // Enough for the model that is written at the end, not for half of the training state.
    limit.rlim_cur = 700'000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    // There are more saves than host buffers, so that the third failure is known before the last
    // save. In the background a fourth may have begun by then.
    const Outcome full =
        RunTrainer(With(Training(out, 40), {"--checkpoint_every=2", "--resume=auto", async}));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(full.exit_code, 1) << full.output;
    EXPECT_NE(full.errors.find("File too large"), std::string::npos) << full.errors;
    EXPECT_NE(full.errors.find(" checkpoints in a row could not be saved"), std::string::npos)
        << full.errors;
    // The first two were warnings, and the model is there.
    ExpectSaid(full, "warning   the checkpoint of step 6");
    ExpectSaid(full, "stopped after ");
    ExpectSaid(full, "model in " + (out / "final").string());
    EXPECT_EQ(Checkpoints(out), std::vector<std::string>{"step-00000004"});
  }
  const fs::path whole = Scratch() / "whole";
  ASSERT_EQ(RunTrainer(Training(whole)).exit_code, 0);
  ASSERT_EQ(RunTrainer(With(Training(out), {"--checkpoint_every=2", "--resume=auto"})).exit_code,
            0);
  // The first four steps belonged to a run of four steps, with another schedule.
  EXPECT_EQ(Steps(out).size(), Steps(whole).size());
}

}  // namespace
