// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer as its users see it: a process with flags, files and exit codes.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

// A learning rate that throws the weights out of the range of float32.
Flags Exploding(const fs::path& out) {
  return With(Reference(out), {"--world_size=2", "--batch_size=4", "--steps=6", "--lr=1e38"});
}

TEST(TrainCliTest, GradientsThatAreNotFiniteStopTheRunWithTheLastGoodWeights) {
  const fs::path out = Scratch() / "out";
  const Outcome run = RunTrainer(Exploding(out));
  EXPECT_EQ(run.exit_code, 1) << run.output;
  for (const char* words : {"the gradient norm is", "were not updated", "--on_nonfinite=skip"}) {
    EXPECT_NE(run.errors.find(words), std::string::npos) << words << " in " << run.errors;
  }
  const std::vector<nlohmann::json> metrics = Metrics(out);
  ASSERT_GE(metrics.size(), 2u);
  EXPECT_EQ(metrics.back()["summary"]["skipped_steps"], 1);
  EXPECT_TRUE(fs::exists(out / "final" / "model.safetensors"));
}

TEST(TrainCliTest, GradientsThatAreNotFiniteMayBeSkipped) {
  const fs::path out = Scratch() / "out";
  const Outcome run = RunTrainer(With(Exploding(out), {"--on_nonfinite=skip"}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("skipped: the gradient norm is"), std::string::npos) << run.output;
  const std::vector<nlohmann::json> metrics = Metrics(out);
  ASSERT_EQ(metrics.size(), 7u);
  EXPECT_GE(metrics.back()["summary"]["skipped_steps"].get<int>(), 4);
}

// Mean and deviation of the window that ends at `at`, apart from the trainer's own.
double ZScore(const std::vector<double>& values, size_t at) {
  constexpr size_t kWindow = 128;
  double mean = 0;
  for (size_t i = at + 1 - kWindow; i <= at; ++i) mean += values[i] / kWindow;
  double variance = 0;
  for (size_t i = at + 1 - kWindow; i <= at; ++i) {
    variance += (values[i] - mean) * (values[i] - mean) / kWindow;
  }
  return (values[at] - mean) / std::sqrt(variance);
}

TEST(TrainCliTest, OutliersAreSkippedAndCounted) {
  const fs::path out = Scratch() / "out";
  constexpr double kLimit = 0.5;
  const Outcome run =
      RunTrainer(With(Reference(out), {"--world_size=2", "--batch_size=1", "--steps=170",
                                       "--shuffle=true", "--lr=1e-6", "--skip_loss_zscore=0.5"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::vector<nlohmann::json> metrics = Metrics(out);
  ASSERT_EQ(metrics.size(), 171u);
  std::vector<double> losses;
  int64_t skipped = 0;
  for (size_t step = 0; step < 170; ++step) {
    losses.push_back(metrics[step]["loss"].get<double>());
    ASSERT_EQ(metrics[step].contains("loss_zscore"), step >= 127) << step;
    if (step >= 127) {
      const double score = ZScore(losses, step);
      EXPECT_NEAR(metrics[step]["loss_zscore"].get<double>(), score, 1e-5) << step;
      if (score > kLimit) ++skipped;
    }
    EXPECT_EQ(metrics[step].value("skipped_steps", 0), skipped) << step;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(metrics[170]["summary"]["skipped_steps"], skipped);
  EXPECT_NE(run.output.find("skipped: an outlier"), std::string::npos) << run.output;
}

TEST(TrainCliTest, TheAverageOfTheWeightsIsEvaluatedAndWrittenBesideThem) {
  const fs::path out = Scratch() / "out";
  const Flags evaluation = {"--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_batches=3",
                            "--world_size=2", "--batch_size=4"};
  const Outcome run =
      RunTrainer(With(With(Reference(out), evaluation), {"--ema_decay=0.9", "--eval_every=10"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const Outcome plain = RunTrainer(With(With(Reference(Scratch() / "plain"), evaluation), {}));
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  EXPECT_EQ(run.output.find("more than once"), std::string::npos) << run.output;
  const std::vector<nlohmann::json> metrics = Metrics(out);
  EXPECT_TRUE(metrics[9].contains("ema_eval_loss"));
  EXPECT_FALSE(metrics[10].contains("ema_eval_loss"));
  // Neither the average nor its evaluation changes the weights.
  EXPECT_TRUE(Read(out / "final/model.safetensors") ==
              Read(Scratch() / "plain/final/model.safetensors"));
  EXPECT_FALSE(Read(out / "final/model.safetensors") == Read(out / "final_ema/model.safetensors"));
  EXPECT_EQ(metrics[19]["eval_loss"], Metrics(Scratch() / "plain")[19]["eval_loss"]);
  EXPECT_NE(metrics[19]["eval_loss"], metrics[19]["ema_eval_loss"]);
  // The written model is the evaluated one.
  const fs::path again = Scratch() / "again";
  const Outcome copy = RunTrainer(
      With(evaluation, {"--init_from=" + (out / "final_ema").string(), "--steps=1", "--lr=0",
                        "--min_lr=0", "--data=tests/testdata/gpt2_tiny/tokens.npy", "--seq_len=32",
                        "--sample_tokens=0", "--out=" + again.string()}));
  ASSERT_EQ(copy.exit_code, 0) << copy.output;
  EXPECT_EQ(Metrics(again)[0]["eval_loss"], metrics[19]["ema_eval_loss"]);
}

TEST(TrainCliTest, AnEvaluationReadsTheSameTextHoweverTheBatchIsDivided) {
  std::vector<double> losses;
  for (const Flags& layout : {Flags{"--world_size=1", "--batch_size=8"},
                              Flags{"--world_size=2", "--batch_size=1", "--grad_accum=4"}}) {
    const fs::path out = Scratch() / std::to_string(losses.size());
    const Outcome run = RunTrainer(
        With(With(Reference(out), layout), {"--eval_data=tests/testdata/gpt2_tiny/tokens.npy",
                                            "--eval_batches=3", "--eval_every=1", "--steps=1"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    losses.push_back(Metrics(out)[0]["eval_loss"]);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6 * losses[0]);
}

TEST(TrainCliTest, AdaptersAreTrainedAndMergedIntoAPlainModel) {
  const fs::path out = Scratch() / "out";
  const Flags evaluation = {"--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_batches=3",
                            "--world_size=2", "--batch_size=4"};
  const Outcome run =
      RunTrainer(With(With(Reference(out), evaluation), {"--lora_rank=4", "--lora_alpha=8"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("LoRA of rank 4, alpha 8, on 12 weights"), std::string::npos)
      << run.output;
  const double adapted = Metrics(out)[19]["eval_loss"].get<double>();
  const fs::path again = Scratch() / "again";
  const Outcome merged = RunTrainer(
      With(evaluation, {"--init_from=" + (out / "final").string(), "--steps=1", "--lr=0",
                        "--min_lr=0", "--data=tests/testdata/gpt2_tiny/tokens.npy", "--seq_len=32",
                        "--sample_tokens=0", "--out=" + again.string()}));
  ASSERT_EQ(merged.exit_code, 0) << merged.output;
  EXPECT_NEAR(Metrics(again)[0]["eval_loss"].get<double>(), adapted, 1e-5 * adapted);
  // The learning rate of the B matrices matters.
  const fs::path faster = Scratch() / "faster";
  const Outcome plus =
      RunTrainer(With(With(Reference(faster), evaluation),
                      {"--lora_rank=4", "--lora_alpha=8", "--lora_b_lr_scale=16"}));
  ASSERT_EQ(plus.exit_code, 0) << plus.output;
  EXPECT_NE(Metrics(faster)[19]["eval_loss"], Metrics(out)[19]["eval_loss"]);
  EXPECT_EQ(Metrics(faster)[0]["loss"], Metrics(out)[0]["loss"]);
}

TEST(TrainCliTest, FollowsTheReferenceAndExportsWhatLoadsAgain) {
  const fs::path out = Scratch() / "out";
  const Outcome run = RunTrainer(With(Reference(out), {"--world_size=2", "--batch_size=4"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json expected =
      nlohmann::json::parse(Read("tests/testdata/gpt2_tiny/expected.json"));
  const std::vector<nlohmann::json> lines = Metrics(out);
  ASSERT_EQ(lines.size(), 21u);
  for (size_t step = 0; step < 20; ++step) {
    EXPECT_EQ(lines[step]["step"], step + 1);
    const double loss = expected["loss"][step];
    EXPECT_LE(std::abs(lines[step]["loss"].get<double>() - loss), 2e-5 * loss) << step;
    for (const char* key : {"grad_norm", "lr", "tokens_per_second", "memory_peak_bytes"}) {
      EXPECT_TRUE(lines[step].contains(key)) << key;
    }
  }
  EXPECT_EQ(lines[20]["summary"]["steps"], 20);
  EXPECT_EQ(lines[20]["summary"]["interrupted"], false);

  const fs::path again = Scratch() / "again";
  const Outcome copy = RunTrainer(
      {"--init_from=" + (out / "final").string(), "--data=tests/testdata/gpt2_tiny/tokens.npy",
       "--seq_len=32", "--shuffle=false", "--steps=0", "--world_size=3", "--batch_size=1",
       "--sample_tokens=0", "--out=" + again.string()});
  ASSERT_EQ(copy.exit_code, 0) << copy.output;
  const std::string trained = Read(out / "final/model.safetensors");
  ASSERT_FALSE(trained.empty());
  EXPECT_NE(trained, Read("tests/testdata/gpt2_tiny/model.safetensors"));
  EXPECT_TRUE(Read(again / "final/model.safetensors") == trained) << "the copy differs";
}

TEST(TrainCliTest, OffloadingChangesNoByteOfTheModel) {
  const Flags flags = {"--world_size=2", "--batch_size=4", "--steps=4"};
  const fs::path out = Scratch() / "out";
  const Outcome plain = RunTrainer(With(Reference(out), flags));
  ASSERT_EQ(plain.exit_code, 0) << plain.output;
  EXPECT_EQ(Metrics(out).back()["summary"]["offload"]["reserved_bytes"], 0);
  const fs::path offloaded = Scratch() / "offloaded";
  const fs::path store = Scratch() / "store";
  fs::create_directory(store);
  const Outcome run = RunTrainer(With(With(Reference(offloaded), flags),
                                      {"--offload=all", "--offload_dir=" + store.string()}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("MiB per rank outside its memory"), std::string::npos) << run.output;
  const nlohmann::json summary = Metrics(offloaded).back()["summary"];
  for (const char* key : {"reserved_bytes", "bytes_read", "bytes_written"}) {
    EXPECT_GT(summary["offload"][key].get<int64_t>(), 0) << key;
  }
  EXPECT_EQ(summary["memory_peak_bytes_by_category"]["optimizer"], 0);
  EXPECT_EQ(summary["memory_peak_bytes_by_category"]["parameters"], 0);
  EXPECT_TRUE(fs::is_empty(store));
  EXPECT_TRUE(Read(offloaded / "final/model.safetensors") == Read(out / "final/model.safetensors"));
}

TEST(TrainCliTest, TrainsInBFloat16AndShowsWhenThingsRan) {
  const fs::path out = Scratch() / "out";
  const Outcome outcome =
      RunTrainer(With(Reference(out), {"--param_dtype=bf16", "--reduce_dtype=bf16",
                                       "--world_size=2", "--batch_size=4", "--trace=3:5"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("bf16, reduced in bf16"), std::string::npos) << outcome.output;
  const nlohmann::json expected =
      nlohmann::json::parse(Read("tests/testdata/gpt2_tiny/expected.json"));
  const std::vector<nlohmann::json> metrics = Metrics(out);
  ASSERT_EQ(metrics.size(), expected["loss"].size() + 1);
  for (size_t step = 0; step < expected["loss"].size(); ++step) {
    const double reference = expected["loss"][step].get<double>();
    EXPECT_NEAR(metrics[step]["loss"].get<double>(), reference, 0.01 * reference) << step;
  }
  std::set<std::string> kinds;
  const nlohmann::json events = nlohmann::json::parse(Read(out / "trace.json"));
  for (const nlohmann::json& event : events["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"].get<std::string>();
    kinds.insert(name.substr(0, name.find(' ')));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"all_gather", "all_reduce", "backward", "forward",
                                          "gather", "gradient", "load", "optimizer", "reduce",
                                          "reduce_scatter", "step", "wait"}));
}

TEST(TrainCliTest, StrategiesWriteTheSameModel) {
  std::string weights;
  std::vector<nlohmann::json> losses;
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    const fs::path out = Scratch() / strategy;
    Flags flags = With(Reference(out),
                       {"--world_size=4", "--batch_size=2", std::string("--strategy=") + strategy});
    if (std::string(strategy) == "hybrid_shard") flags.push_back("--shard_size=2");
    const Outcome run = RunTrainer(flags);
    ASSERT_EQ(run.exit_code, 0) << run.output;
    std::vector<nlohmann::json> mine;
    for (const nlohmann::json& line : Metrics(out)) {
      if (line.contains("loss")) mine.push_back({line["loss"], line["grad_norm"]});
    }
    ASSERT_EQ(mine.size(), 20u) << strategy;
    const std::string model = Read(out / "final/model.safetensors");
    ASSERT_FALSE(model.empty());
    if (weights.empty()) {
      weights = model;
      losses = mine;
    }
    EXPECT_TRUE(model == weights) << strategy << " wrote other weights than no_shard";
    EXPECT_EQ(mine, losses) << strategy;
  }
}

TEST(TrainCliTest, RelativePathsMeanWhereTheUserStands) {
  const fs::path home = Scratch() / "home";
  fs::create_directories(home);
  Write(home / "text.txt", std::string(5000, 'a') + "\n");
  const Outcome run = RunTrainer({"--data=text.txt", "--steps=2", "--seq_len=16", "--batch_size=1",
                                  "--sample_tokens=4", "--out=mine"},
                                 home.string());
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(fs::exists(home / "mine/final/config.json"));
  EXPECT_TRUE(fs::exists(home / "mine/metrics.jsonl"));
}

// The trainer's exit code for a run that a signal ended, as schedulers see it.
constexpr int kInterrupted = 75;

// Waits until the run has reported `steps` steps.
void AwaitSteps(const fs::path& out, size_t steps, pid_t child, const fs::path& log) {
  // The test's time limit ends a trainer that never gets there.
  while (Metrics(out).size() < steps) {
    // A pid that has been waited for may be another process's by the time it is signalled.
    ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "ended by itself: " << Logs(log);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A scheduler must not mistake half a run for a finished one, and nothing that was computed is
// lost.
TEST(TrainCliTest, ASignalEndsAfterTheStepSavesAndExitsWithItsOwnCode) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    SCOPED_TRACE(signal);
    const fs::path out = Scratch() / ("out" + std::to_string(signal));
    const fs::path log = Scratch() / "log";
    const pid_t child = Start(With(Reference(out), {"--steps=100000", "--world_size=2"}), log);
    ASSERT_GT(child, 0);
    AwaitSteps(out, 3, child, log);
    ASSERT_EQ(kill(child, signal), 0);
    EXPECT_EQ(Wait(child), kInterrupted) << Logs(log);
    const std::vector<nlohmann::json> lines = Metrics(out);
    ASSERT_GE(lines.size(), 4u);
    ASSERT_TRUE(lines.back().contains("summary")) << Logs(log);
    const nlohmann::json& summary = lines.back()["summary"];
    EXPECT_EQ(summary["interrupted"], true);
    EXPECT_EQ(summary["steps"], lines.size() - 1);
    // Without --checkpoint_every, too, and no model that looks finished.
    EXPECT_FALSE(fs::exists(out / "final"));
    EXPECT_NE(Logs(log).find("; --resume=auto continues from there"), std::string::npos)
        << Logs(log);
    // It has explained this at once.
    const std::string errors = Read(ErrorLog(log));
    for (const std::string& words :
         {"interrupt: the run ends after this step and saves a checkpoint in " + out.string(),
          std::string("ends it at once and loses the whole run")}) {
      EXPECT_NE(errors.find(words), std::string::npos) << words << " in " << errors;
    }
    // The continued run ends with the bits of an uninterrupted one.
    const std::string steps = "--steps=" + std::to_string(summary["steps"].get<int64_t>() + 3);
    const Outcome resumed = RunTrainer(With(Reference(out), {steps, "--resume=auto"}));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    const Outcome whole = RunTrainer(With(Reference(Scratch() / "whole"), {steps, "--overwrite"}));
    ASSERT_EQ(whole.exit_code, 0) << whole.output;
    const std::string model = "final/model.safetensors";
    EXPECT_TRUE(Read(out / model) == Read(Scratch() / "whole" / model));
  }
}

TEST(TrainCliTest, TheTimeLimitEndsTheRunAsASignalDoes) {
  const fs::path out = Scratch() / "out";
  const Outcome run =
      RunTrainer(With(Reference(out), {"--steps=1000000", "--world_size=2", "--max_seconds=1"}));
  EXPECT_EQ(run.exit_code, kInterrupted) << run.output;
  EXPECT_NE(run.output.find("--max_seconds=1 have passed"), std::string::npos) << run.output;
  const std::vector<nlohmann::json> lines = Metrics(out);
  ASSERT_FALSE(lines.empty());
  const nlohmann::json& summary = lines.back()["summary"];
  EXPECT_EQ(summary["interrupted"], true);
  EXPECT_FALSE(fs::exists(out / "final"));
  // The time of the first run does not count in the resumed one.
  const int64_t steps = summary["steps"].get<int64_t>();
  const Outcome resumed =
      RunTrainer(With(Reference(out), {"--steps=" + std::to_string(steps + 2), "--resume=auto"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_NE(resumed.output.find("after step " + std::to_string(steps)), std::string::npos)
      << resumed.output;
}

// Evaluations of a large model would outlast the grace period after a signal.
TEST(TrainCliTest, ASignalEndsAnEvaluationWhichTheResumedRunMakesUpFor) {
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "log";
  Write(Scratch() / "text.txt", std::string(5000, 'b'));
  Write(Scratch() / "long.txt", std::string(40'000'000, 'c'));
  const Flags flags = {"--data=" + (Scratch() / "text.txt").string(),
                       "--seq_len=64",
                       "--batch_size=1",
                       "--ema_decay=0.5",
                       "--sample_tokens=0",
                       "--eval_every=1",
                       "--eval_data=" + (Scratch() / "long.txt").string(),
                       "--out=" + out.string()};
  const pid_t child = Start(With(flags, {"--steps=100", "--eval_batches=1000000"}), log);
  ASSERT_GT(child, 0);
  AwaitSteps(out, 1, child, log);
  ASSERT_EQ(kill(child, SIGTERM), 0);
  EXPECT_EQ(Wait(child), kInterrupted) << Logs(log);
  std::vector<nlohmann::json> lines = Metrics(out);
  ASSERT_EQ(lines.size(), 2u) << Logs(log);
  EXPECT_FALSE(lines[0].contains("eval_loss"));
  EXPECT_EQ(lines[1]["summary"]["steps"], 1);
  EXPECT_TRUE(fs::exists(out / "step-00000001"));
  EXPECT_EQ(lines[1]["summary"]["interrupted"], true);
  EXPECT_FALSE(fs::exists(out / "final"));
  // A signal in the evaluation that a resumed run makes up: no step is made.
  const fs::path again = Scratch() / "again";
  const pid_t second =
      Start(With(flags, {"--steps=100", "--eval_batches=1000000", "--resume=auto"}), again);
  ASSERT_GT(second, 0);
  for (int i = 0; i < 6000 && Logs(again).find("strategy") == std::string::npos; ++i) usleep(10000);
  ASSERT_EQ(kill(second, SIGTERM), 0);
  EXPECT_EQ(Wait(second), kInterrupted) << Logs(again);
  lines = Metrics(out);
  ASSERT_EQ(lines.size(), 2u) << Logs(again);
  EXPECT_EQ(lines[1]["summary"]["steps"], 1);
  EXPECT_EQ(lines[1]["summary"]["interrupted"], true);
  EXPECT_EQ(lines[1]["summary"]["failed"], false);
  // No step is left: the run evaluates, exports, and ends with the summary of its steps.
  const Outcome ended = RunTrainer(With(flags, {"--steps=1", "--eval_batches=2", "--resume=auto"}));
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  lines = Metrics(out);
  ASSERT_EQ(lines.size(), 2u) << ended.output;
  EXPECT_TRUE(lines[0].contains("eval_loss")) << lines[0];
  EXPECT_EQ(lines[1]["summary"]["steps"], 1);
  EXPECT_EQ(lines[1]["summary"]["interrupted"], false);
  const Outcome resumed =
      RunTrainer(With(flags, {"--steps=2", "--eval_batches=2", "--resume=auto"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  lines = Metrics(out);
  ASSERT_EQ(lines.size(), 3u) << resumed.output;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(lines[i].contains("eval_loss") && lines[i].contains("ema_eval_loss")) << lines[i];
  }
  EXPECT_TRUE(fs::exists(out / "final"));
}

TEST(TrainCliTest, ASignalEndsARunThatOnlyEvaluates) {
  const fs::path log = Scratch() / "log";
  Write(Scratch() / "long.txt", std::string(40'000'000, 'c'));
  const std::string text = (Scratch() / "long.txt").string();
  const pid_t child = Start({"--data=" + text, "--eval_data=" + text, "--steps=0",
                             "--eval_batches=1000000", "--seq_len=64", "--batch_size=1"},
                            log, Scratch().string());
  ASSERT_GT(child, 0);
  while (Logs(log).find("batch ") == std::string::npos) {
    ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "ended by itself: " << Logs(log);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(kill(child, SIGTERM), 0);
  EXPECT_EQ(Wait(child), kInterrupted) << Logs(log);
  EXPECT_NE(Logs(log).find("interrupted: no evaluation loss"), std::string::npos) << Logs(log);
}

// A rate for training from scratch would be fifty times too high.
TEST(TrainCliTest, FineTuningHasDefaultsThatItNames) {
  Flags flags = {"--init_from=tests/testdata/gpt2_tiny",
                 "--data=tests/testdata/gpt2_tiny/tokens.npy", "--steps=1", "--sample_tokens=0",
                 "--seq_len=32"};
  const auto output = [&](const std::string& name, const Flags& more) {
    return RunTrainer(With(flags, With(more, {"--out=" + (Scratch() / name).string()}))).output;
  };
  EXPECT_NE(output("defaults", {}).find("note      --lr=2e-05 is the default for fine-tuning"),
            std::string::npos);
  EXPECT_EQ(output("chosen", {"--lr=1e-5"}).find("note      --lr"), std::string::npos);
  const std::string rises =
      "note      the warm-up (4 steps) is as long as the run (2) or longer: "
      "the learning rate only rises, to 5e-06 of 1e-05;";
  const Flags warmup = {"--lr=1e-5", "--steps=2", "--warmup_steps=4"};
  EXPECT_NE(output("rises", warmup).find(rises), std::string::npos);
  EXPECT_EQ(output("peak", With(warmup, {"--steps=5"})).find("the learning rate only rises"),
            std::string::npos);
  const std::string refused = output("long", {"--seq_len=128"});
  EXPECT_NE(refused.find("--seq_len=128: the model has 64 positions"), std::string::npos)
      << refused;
  // The rows of tokens above determine the sequence length; text does not.
  Write(Scratch() / "text.txt", std::string(5000, 'a'));
  const std::string lengths = output("lengths", {"--seq_len=0", "--tokenizer=byte",
                                                 "--data=" + (Scratch() / "text.txt").string()});
  EXPECT_NE(lengths.find(" sequences of 64 tokens a step"), std::string::npos) << lengths;
  // The most that the model takes, so that there is nothing to choose.
  EXPECT_EQ(lengths.find("note      --seq_len"), std::string::npos) << lengths;
  EXPECT_NE(lengths.find("note      --warmup_ratio=0.03 is the default"), std::string::npos)
      << lengths;
}

// Each held-out sequence counts once, so that the loss does not depend on the batch.
TEST(TrainCliTest, AnEvaluationCountsEachSequenceOnce) {
  std::vector<double> losses;
  for (const Flags& layout :
       {Flags{"--world_size=1", "--batch_size=1"}, Flags{"--world_size=1", "--batch_size=7"},
        Flags{"--world_size=2", "--batch_size=8", "--grad_accum=3"},
        Flags{"--world_size=4", "--batch_size=64"}}) {
    const fs::path out = Scratch() / std::to_string(losses.size());
    const Outcome run = RunTrainer(
        With(With(Reference(out), layout), {"--eval_data=tests/testdata/gpt2_tiny/tokens.npy",
                                            "--eval_batches=100000", "--steps=1", "--lr=0"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_EQ(run.output.find("held-out sequences (--eval_batches"), std::string::npos);
    losses.push_back(Metrics(out)[0]["eval_loss"]);
    EXPECT_NEAR(losses.back(), losses[0], 1e-6 * losses[0]);
  }
  const Outcome part =
      RunTrainer(With(Reference(Scratch() / "part"),
                      {"--world_size=1", "--batch_size=2", "--steps=1",
                       "--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_batches=3"}));
  EXPECT_NE(part.output.find("eval      reads 6 of 160 held-out sequences (--eval_batches=3); "
                             "--eval_batches=80 reads all"),
            std::string::npos)
      << part.output;
}

TEST(TrainCliTest, ASecondInterruptEndsAtOnceAndSaysWhatIsLost) {
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "log";
  Write(Scratch() / "text.txt", std::string(5000, 'b'));
  // A step that never ends.
  const pid_t child =
      Start({"--data=" + (Scratch() / "text.txt").string(), "--steps=10", "--grad_accum=1000000",
             "--seq_len=16", "--batch_size=1", "--out=" + out.string()},
            log);
  const auto await = [&](const fs::path& file, const std::string& words) {
    while (Read(file).find(words) == std::string::npos) {
      ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "ended by itself: " << Logs(log);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  };
  await(log, "batch ");
  kill(child, SIGINT);
  await(ErrorLog(log), "A second interrupt ends it at once");
  kill(child, SIGINT);
  EXPECT_EQ(Wait(child), -1);
  EXPECT_NE(Read(ErrorLog(log)).find("interrupt: ended at once. Lost: "), std::string::npos)
      << Logs(log);
  EXPECT_FALSE(fs::exists(out / "final"));
}

struct Refusal {
  std::string name;
  Flags flags;
  Flags message;  // parts of it, none of which the path of a file can hold by itself
};

class TrainCliErrorTest : public testing::TestWithParam<Refusal> {};

TEST_P(TrainCliErrorTest, SaysWhatIsWrongAndFails) {
  const fs::path scratch = fs::path(testing::TempDir()) / ("error_" + GetParam().name);
  fs::remove_all(scratch);
  fs::create_directories(scratch);
  Write(scratch / "text.txt", std::string(4000, 'c'));
  Write(scratch / "short.txt", "short");
  Write(scratch / "empty.txt", "");
  Flags flags;
  for (std::string flag : GetParam().flags) {
    const size_t at = flag.find("SCRATCH");
    if (at != std::string::npos) flag.replace(at, 7, scratch.string());
    flags.push_back(flag);
  }
  for (const char* model : {"cut_short", "ranges", "shapes", "header", "bert", "json"}) {
    fs::create_directories(scratch / model);
    fs::copy_file("tests/testdata/gpt2_tiny/config.json", scratch / model / "config.json");
    Write(scratch / model / "model.safetensors",
          Read("tests/testdata/gpt2_tiny/model.safetensors"));
  }
  Write(scratch / "json/tokenizer.json", "{}");
  const std::string whole = Read(scratch / "cut_short/model.safetensors");
  Write(scratch / "cut_short/model.safetensors", whole.substr(0, whole.size() / 2));
  const auto with_header = [](const std::string& header) {
    uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(32, '\0');
  };
  Write(
      scratch / "ranges/model.safetensors",
      with_header(
          R"({"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})"));
  const uint64_t absurd = uint64_t{1} << 62;
  Write(scratch / "header/model.safetensors",
        std::string(reinterpret_cast<const char*>(&absurd), 8) + "{}");
  Write(scratch / "shapes/model.safetensors",
        with_header(R"({"a":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,32]}})"));
  nlohmann::json config = nlohmann::json::parse(Read(scratch / "bert/config.json"));
  config["model_type"] = "bert";
  fs::remove(scratch / "bert/config.json");
  Write(scratch / "bert/config.json", config.dump());

  const Outcome run = RunTrainer(flags);
  EXPECT_NE(run.exit_code, 0) << run.output;
  EXPECT_NE(run.exit_code, -1) << "ended by a signal: " << run.output;
  for (const std::string& part : GetParam().message) {
    EXPECT_NE(run.errors.find(part), std::string::npos)
        << "expected '" << part << "' on stderr, which has: " << run.errors
        << "\nboth streams: " << run.output;
  }
  EXPECT_FALSE(fs::exists(scratch / "out/metrics.jsonl"));
  EXPECT_FALSE(fs::exists(scratch / "out/final"));
}

const char kText[] = "--data=SCRATCH/text.txt";
const char kOut[] = "--out=SCRATCH/out";

INSTANTIATE_TEST_SUITE_P(
    Refusals, TrainCliErrorTest,
    testing::Values(
        Refusal{"strategy",
                {kText, kOut, "--strategy=zero9"},
                {"unknown sharding strategy 'zero9'", "full_shard", "hybrid_shard"}},
        Refusal{"strategy_of_others",
                {kText, kOut, "--strategy=zero3"},
                {"did you mean full_shard (ZeRO-3)?"}},
        Refusal{"device_of_others", {kText, kOut, "--device=gpu"}, {"did you mean cuda?"}},
        Refusal{"model_of_others",
                {kText, kOut, "--model=gpt2-medium"},
                {"did you mean gpt2_355m?", "--init_from"}},
        Refusal{"strategy_option",
                {kText, kOut, "--strategy=full_shard:depth=2"},
                {"full_shard: unknown option 'depth'", "it has no options"}},
        Refusal{"memory_limit",
                {kText, kOut, "--memory_limit=1MiB"},
                {"bytes above the memory limit of 1048576", "aborted"}},
        Refusal{"offload",
                {kText, kOut, "--offload=weights"},
                {"--offload=weights", "parameters, gradients and optimizer"}},
        Refusal{"offload_dir",
                {kText, kOut, "--offload=all", "--offload_dir=SCRATCH/nowhere"},
                {"offload file in directory", "nowhere: No such file or directory"}},
        Refusal{"world_size", {kText, kOut, "--world_size=-2"}, {"--world_size=-2", "at least 1"}},
        Refusal{"shard_size",
                {kText, kOut, "--strategy=hybrid_shard", "--world_size=4", "--shard_size=3"},
                {"shard size 3", "the 4 data ranks", "1, 2, 4"}},
        Refusal{"shard_size_of_data_ranks",
                {kText, kOut, "--strategy=hybrid_shard", "--world_size=4", "--tensor_parallel=2",
                 "--shard_size=4"},
                {"--world_size=4 / --tensor_parallel=2 = 2 ranks", "shard size 4", "1, 2"}},
        Refusal{"no_data", {kOut}, {"--data is missing"}},
        Refusal{"absent_data",
                {"--data=SCRATCH/nothing.txt", kOut},
                {"--data: ", "nothing.txt: No such file or directory"}},
        Refusal{"empty_data", {"--data=SCRATCH/empty.txt", kOut}, {"empty.txt: is empty"}},
        Refusal{
            "short_data", {"--data=SCRATCH/short.txt", kOut}, {"short.txt: 6 tokens", "needs 129"}},
        Refusal{"truncated",
                {kText, kOut, "--init_from=SCRATCH/cut_short"},
                {"cut_short/model.safetensors", "is it truncated?"}},
        Refusal{"overlap",
                {kText, kOut, "--init_from=SCRATCH/ranges"},
                {"ranges/model.safetensors", "\"a\" and \"b\" overlap", "[16, 24)"}},
        Refusal{"lying_shape",
                {kText, kOut, "--init_from=SCRATCH/shapes"},
                {"shapes/model.safetensors", "span 32 bytes, expected 4000000000000"}},
        Refusal{"lying_header_length",
                {kText, kOut, "--init_from=SCRATCH/header"},
                {"header/model.safetensors", "4611686018427387904 bytes"}},
        Refusal{
            "architecture", {kText, kOut, "--init_from=SCRATCH/bert"}, {"'bert'", "gpt2", "llama"}},
        Refusal{"unwritable",
                {kText, "--out=SCRATCH/text.txt/out"},
                {"--out=", "text.txt/out: cannot create this directory"}},
        Refusal{"text_without_a_tokenizer",
                {kText, kOut, "--model=gpt2_124m"},
                {"no tokenizer for --model=gpt2_124m", "vocabulary of 50257", "--tokenizer=PATH",
                 "token files", "--tokenizer=byte"}},
        Refusal{
            "text_for_tokenizer_json",
            {kText, kOut, "--init_from=SCRATCH/json", "--seq_len=32"},
            {"no tokenizer for --init_from=", "tokenizer.json: model: \"vocab\" is not an object"}},
        Refusal{"text_for_a_tokenizer_of_another_model",
                {kText, kOut, "--tokenizer=tests/testdata/tokenizers/qwen2"},
                {"tokenizer.json tokenizer makes ids up to 900", "vocabulary has only 257"}},
        Refusal{"text_to_evaluate_on",
                {"--data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_data=SCRATCH/text.txt", kOut,
                 "--model=gpt2_124m"},
                {"no tokenizer for --model=gpt2_124m"}},
        Refusal{"rising_rate",
                {kText, kOut, "--lr=3e-5", "--min_lr=1e-4"},
                {"--min_lr=0.0001 and --lr=3e-05", "a tenth of --lr"}},
        Refusal{"flag",
                {kText, kOut, "--no_such_flag", "--max_steps=3", "--btch_size=2"},
                {"there is no flag --no_such_flag", "--max_steps; did you mean --steps?",
                 "--btch_size; did you mean --batch_size?"}},
        Refusal{"resume_takes_out",
                {kText, "--resume", kOut},
                {"--resume has no value", "--resume=auto"}},
        Refusal{"number", {kText, kOut, "--lr=abc"}, {"--lr=abc: expected a finite number"}},
        Refusal{"argument", {kText, kOut, "stray"}, {"'stray'"}},
        Refusal{"model", {kText, kOut, "--model=gpt9"}, {"'gpt9'", "gpt2_124m", "llama3_8b"}},
        Refusal{"two_models",
                {kText, kOut, "--model=gpt2_nano", "--init_from=tests/testdata/gpt2_tiny"},
                {"--model=gpt2_nano and --init_from=", "both say what the model is"}},
        Refusal{"positions", {kText, kOut, "--seq_len=4000"}, {"--seq_len=4000", "256 positions"}},
        Refusal{"schedule",
                {kText, kOut, "--lr_schedule=step"},
                {"--lr_schedule: unknown learning-rate schedule 'step'",
                 "constant, cosine, linear, wsd"}},
        Refusal{"cuda_graphs",
                {kText, kOut, "--cuda_graphs"},
                {"--cuda_graphs needs --device=cuda", "device cpu:0"}},
        Refusal{"traced_graphs",
                {kText, kOut, "--cuda_graphs", "--trace=3:4"},
                {"3:4 and --cuda_graphs", "trace a run without graphs"}},
        Refusal{"skip_loss_zscore",
                {kText, kOut, "--skip_loss_zscore=12"},
                {"--skip_loss_zscore=12", "below 11.2"}},
        Refusal{"skip_grad_norm_zscore",
                {kText, kOut, "--skip_grad_norm_zscore=3", "--cuda_graphs"},
                {"--skip_grad_norm_zscore=3 and --cuda_graphs"}},
        Refusal{"ema_decay",
                {kText, kOut, "--ema_decay=1"},
                {"--ema_decay=1", "of at least 0 and below 1"}},
        Refusal{"lora_rank", {kText, kOut, "--lora_rank=-1"}, {"--lora_rank=-1", "at least 1"}},
        Refusal{"lora_target",
                {kText, kOut, "--lora_rank=2", "--lora_targets=c_attn,w_proj"},
                {"'w_proj'", "c_attn, c_fc, c_proj"}},
        Refusal{"lora_b_lr_scale_alone",
                {kText, kOut, "--lora_b_lr_scale=16"},
                {"--lora_b_lr_scale=16 needs --lora_rank"}},
        Refusal{"lora_targets_alone",
                {kText, kOut, "--lora_targets=c_attn"},
                {"--lora_targets=c_attn needs --lora_rank"}},
        Refusal{"int8_and_nothing_cut",
                {kText, kOut, "--quantized_gradients", "--strategy=no_shard"},
                {"--quantized_gradients", "--strategy=no_shard", "all-reduce"}},
        Refusal{"int8_in_groups_of_one",
                {kText, kOut, "--quantized_weights", "--strategy=hybrid_shard", "--shard_size=1"},
                {"--quantized_weights", "--shard_size=1"}},
        Refusal{"device",
                {kText, kOut, "--device=tpu"},
                {"'tpu'", "program has: cpu", "--config=cuda", "zeroth_cuda13"}},
        Refusal{
            "comm", {kText, kOut, "--comm=pigeon"}, {"'pigeon'", "has: local", "--config=cuda"}}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
