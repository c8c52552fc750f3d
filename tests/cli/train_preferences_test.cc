// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// --objective: what a run on preference pairs reports, how it resumes, and what is refused.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

Flags OfPairs(const fs::path& out, const Flags& more) {
  return With(
      {"--data=tests/testdata/preferences/pairs.jsonl", "--init_from=tests/testdata/llama_tiny",
       "--tokenizer=byte", "--seq_len=63", "--lr=1e-3", "--world_size=2", "--deterministic_batch=4",
       "--batch_size=1", "--eval_fraction=0.2", "--eval_every=2", "--sample_tokens=0",
       "--threads_per_rank=1", "--steps=4", "--cache_dir=none", "--out=" + out.string()},
      more);
}

constexpr char kJudgements[] = "--data=tests/testdata/preferences/judgements.jsonl";

// Both kinds of reference, and none.
const std::vector<Flags> kObjectives = {{"--objective=dpo"},
                                        {"--objective=dpo", "--lora_rank=2"},
                                        {"--objective=orpo"},
                                        {"--objective=kto", kJudgements},
                                        {"--objective=kto", kJudgements, "--lora_rank=2"},
                                        {"--objective=reward"},
                                        {"--objective=reward", "--lora_rank=2"}};

TEST(TrainPreferencesTest, ResumesAtOtherRanksWithTheSameBits) {
  for (const Flags& objective : {kObjectives[0], kObjectives[1], kObjectives[5], kObjectives[6]}) {
    SCOPED_TRACE(testing::PrintToString(objective));
    const std::string name = absl::StrCat("of_", objective.size(), objective[0].substr(12));
    const fs::path whole = Scratch() / (name + "_whole");
    const Outcome undisturbed = RunTrainer(OfPairs(whole, objective));
    ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
    EXPECT_TRUE(absl::StrContains(undisturbed.output, "(preference)")) << undisturbed.output;
    EXPECT_TRUE(absl::StrContains(undisturbed.output, "12 pairs of ")) << undisturbed.output;
    const bool is_cached = objective.size() == 1 && objective[0] == "--objective=dpo";
    EXPECT_EQ(absl::StrContains(undisturbed.output, "reference losses of the initial weights"),
              is_cached)
        << undisturbed.output;
    for (const nlohmann::json& step : Metrics(whole)) {
      if (!step.contains("step")) continue;  // the summary
      EXPECT_NEAR(step["reward_margin"].get<double>(),
                  step["reward_chosen"].get<double>() - step["reward_rejected"].get<double>(),
                  1e-6);
      EXPECT_GE(step["reward_accuracy"].get<double>(), 0);
      EXPECT_LE(step["reward_accuracy"].get<double>(), 1);
      EXPECT_EQ(step.contains("eval_reward_accuracy"), step["step"].get<int>() % 2 == 0);
    }
    const fs::path out = Scratch() / name;
    const Flags saving = With(OfPairs(out, objective), {"--checkpoint_every=2"});
    ASSERT_EQ(RunTrainer(saving).exit_code, 0);
    fs::remove_all(out / "step-00000004");
    fs::remove_all(out / "final");
    const Outcome rest = RunTrainer(With(
        saving, {"--resume=auto", "--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"}));
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_TRUE(absl::StrContains(rest.output, "after step 2")) << rest.output;
    EXPECT_EQ(StepFacts(out), StepFacts(whole));
    EXPECT_TRUE(Read(out / "final/model.safetensors") == Read(whole / "final/model.safetensors"));
  }
}

// In the first step the trained model is the reference, so that the loss is log 2.
TEST(TrainPreferencesTest, BothReferencesAreTheInitialModel) {
  for (const std::string reference : {"adapter_off", "cached"}) {
    const fs::path out = Scratch() / reference;
    const Outcome run = RunTrainer(OfPairs(
        out, {"--objective=dpo", "--lora_rank=2", "--reference=" + reference, "--lr=1e-2"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_EQ(Metrics(out)[0]["loss"].get<float>(), 0.6931472f);
  }
  EXPECT_EQ(StepFacts(Scratch() / "adapter_off"), StepFacts(Scratch() / "cached"));
  // An adapter that is trained further belongs to it.
  const fs::path adapter = Scratch() / "adapter";
  const Outcome first = RunTrainer(OfPairs(
      adapter, {"--objective=orpo", "--lora_rank=2", "--lora_export=adapter", "--lr=1e-2"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const fs::path out = Scratch() / "further";
  const Outcome further = RunTrainer(
      OfPairs(out, {"--objective=dpo", "--init_adapter=" + (adapter / "final_adapter").string()}));
  ASSERT_EQ(further.exit_code, 0) << further.output;
  EXPECT_EQ(Metrics(out)[0]["loss"].get<float>(), 0.6931472f);
}

// A short run computes what it reads, a longer one the rest, and others read both, with the bits of
// a run that keeps nothing.
TEST(TrainPreferencesTest, KeepsTheReferenceBesideTheData) {
  const std::string cache = (Scratch() / "cache").string();
  const auto train = [&](const char* name, const Flags& more) {
    return RunTrainer(
        OfPairs(Scratch() / name, With({"--objective=dpo", "--cache_dir=" + cache}, more)));
  };
  const struct {
    const char* name;
    Flags flags;
    std::string note;  // about the training data
  } kRuns[] = {
      {"none", {"--cache_dir=none"}, "on 10 sequences of --data, 10 of them computed"},
      {"short", {"--steps=1"}, "on 4 sequences of --data, 4 of them computed"},
      {"long", {"--checkpoint_every=2"}, "on 10 sequences of --data, 6 of them computed"},
      {"again", {"--world_size=4"}, "on 10 sequences of --data, read from " + cache},
      {"other", {"--objective=ipo", "--lr=1e-2"}, "on 10 sequences of --data, read from " + cache},
      {"bf16", {"--param_dtype=bf16"}, "on 10 sequences of --data, 10 of them computed"},
  };
  for (const auto& run : kRuns) {
    SCOPED_TRACE(run.name);
    const Outcome outcome = train(run.name, run.flags);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, run.note)) << outcome.output;
  }
  const std::vector<nlohmann::json> expected = StepFacts(Scratch() / "none");
  EXPECT_EQ(StepFacts(Scratch() / "long"), expected);
  EXPECT_EQ(StepFacts(Scratch() / "again"), expected);

  const fs::path out = Scratch() / "long";
  fs::remove_all(out / "step-00000004");
  fs::remove_all(out / "final");
  const Outcome rest = train("long", {"--checkpoint_every=2", "--resume=auto"});
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(absl::StrContains(rest.output, "sequences of --data, read from")) << rest.output;
  EXPECT_FALSE(absl::StrContains(rest.output, "of them computed")) << rest.output;
  EXPECT_EQ(StepFacts(out), expected);

  for (const auto& file : fs::directory_iterator(cache)) {
    if (file.path().extension() != ".reference") continue;
    fs::resize_file(file.path(), fs::file_size(file.path()) - 1);
  }
  const Outcome damaged = train("damaged", {});
  ASSERT_EQ(damaged.exit_code, 0) << damaged.output;
  EXPECT_TRUE(absl::StrContains(damaged.output, "10 of them computed")) << damaged.output;
  EXPECT_TRUE(absl::StrContains(damaged.output, " bytes, expected ")) << damaged.output;
  EXPECT_EQ(StepFacts(Scratch() / "damaged"), expected);
}

// Other rows of a batch change how many tokens each expert computes, and the scales of fp8. So what
// an earlier run has left must not change which rows are computed together.
TEST(TrainPreferencesTest, AnEarlierRunChangesNoBitOfTheReference) {
  const auto kept = [](const std::string& cache) {
    std::vector<std::string> files;
    for (const auto& file : fs::directory_iterator(cache)) {
      if (file.path().extension() == ".reference") files.push_back(file.path().string());
    }
    std::sort(files.begin(), files.end());
    for (std::string& file : files) file = fs::path(file).filename().string() + Read(file);
    return files;
  };
  for (const std::string type : {"--param_dtype=bf16", "--fp8=tensorwise"}) {
    SCOPED_TRACE(type);
    const Flags flags = {"--objective=dpo",
                         "--init_from=tests/testdata/qwen3_moe_tiny",
                         "--world_size=1",
                         "--deterministic_batch=0",
                         "--batch_size=2",
                         "--eval_fraction=0",
                         "--eval_every=0",
                         "--param_dtype=bf16",
                         type};
    const auto train = [&](const std::string& name, const std::string& cache, const Flags& more) {
      const fs::path out = Scratch() / (name + type);
      const Outcome run =
          RunTrainer(OfPairs(out, With(flags, With({"--cache_dir=" + cache}, more))));
      EXPECT_EQ(run.exit_code, 0) << run.output;
      return run.output;
    };
    const std::string cold = (Scratch() / ("cold_cache" + type)).string();
    const std::string warm = (Scratch() / ("warm_cache" + type)).string();
    train("cold", cold, {});
    train("first", warm, {"--steps=1"});
    const std::string output = train("second", warm, {});
    EXPECT_TRUE(absl::StrContains(output, "on 8 sequences of --data, ")) << output;
    EXPECT_TRUE(absl::StrContains(output, " of them computed")) << output;
    EXPECT_TRUE(kept(warm) == kept(cold));
    EXPECT_EQ(StepFacts(Scratch() / ("second" + type)), StepFacts(Scratch() / ("cold" + type)));
  }
}

// Errors of the directory come before the reference is computed.
TEST(TrainPreferencesTest, LocksItsDirectoryBeforeTheReference) {
  const fs::path out = Scratch() / "locked";
  fs::create_directories(out);
  const int directory = open(out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  ASSERT_EQ(flock(directory, LOCK_EX), 0);
  const Outcome run = RunTrainer(OfPairs(out, {"--objective=dpo"}));
  close(directory);
  EXPECT_NE(run.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(run.errors, "another run that is alive")) << run.output;
  EXPECT_FALSE(absl::StrContains(run.output, "reference computes")) << run.output;
}

TEST(TrainPreferencesTest, TheReferenceMayBeAnotherModel) {
  const std::string initial = "tests/testdata/llama_tiny";
  const Outcome by_path =
      RunTrainer(OfPairs(Scratch() / "by_path", {"--objective=dpo", "--reference=" + initial}));
  ASSERT_EQ(by_path.exit_code, 0) << by_path.output;
  EXPECT_TRUE(absl::StrContains(by_path.output, "reference losses of " + initial))
      << by_path.output;
  ASSERT_EQ(RunTrainer(OfPairs(Scratch() / "cached", {"--objective=dpo"})).exit_code, 0);
  EXPECT_EQ(StepFacts(Scratch() / "by_path"), StepFacts(Scratch() / "cached"));

  // Before the first update, each of two models is as far from the other.
  ASSERT_EQ(RunTrainer(OfPairs(Scratch() / "other", {"--objective=orpo", "--lr=1e-2"})).exit_code,
            0);
  const std::string other = (Scratch() / "other/final").string();
  const auto first_step = [&](const char* name, const Flags& more) {
    const Outcome run = RunTrainer(OfPairs(Scratch() / name, With({"--objective=dpo"}, more)));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return Metrics(Scratch() / name)[0];
  };
  const nlohmann::json there = first_step("there", {"--reference=" + other});
  const nlohmann::json back =
      first_step("back", {"--init_from=" + other, "--reference=" + initial, "--world_size=4",
                          "--strategy=hybrid_shard", "--shard_size=2"});
  EXPECT_GT(std::abs(there["reward_chosen"].get<double>()), 0.01);
  for (const char* reward : {"reward_chosen", "reward_rejected"}) {
    EXPECT_NEAR(there[reward].get<double>(), -back[reward].get<double>(), 1e-5);
  }
  const auto directory = zeroth::HfDirectory::Open(other);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string gguf = (Scratch() / "other.gguf").string();
  zeroth::GgufExportOptions of_file;
  of_file.vocabulary = zeroth::GgufVocabularySource::kNone;
  ASSERT_EQ(zeroth::ConvertHfToGguf(*directory, gguf, of_file), absl::OkStatus());
  EXPECT_EQ(first_step("gguf", {"--reference=" + gguf})["loss"], there["loss"]);
  // Adapters do not change their reference model, which tensor ranks divide, too.
  const nlohmann::json adapters =
      first_step("adapters", {"--lora_rank=2", "--reference=" + other, "--tensor_parallel=2"});
  EXPECT_NEAR(adapters["loss"].get<double>(), there["loss"].get<double>(), 1e-5);
}

// --router_dtype also applies to the reference's routers. But router options do not require that
// the reference has experts or router biases.
TEST(TrainPreferencesTest, TheReferenceMayHaveOtherExperts) {
  const std::string dots1 = "tests/testdata/dots1_tiny";
  const Flags run = {"--objective=dpo", "--init_from=" + dots1, "--param_dtype=bf16",
                     "--router_dtype=fp32", "--router_bias_rate=0.001"};
  const auto train = [&](const std::string& name, const std::string& reference) {
    const Outcome outcome =
        RunTrainer(OfPairs(Scratch() / name, With(run, {"--reference=" + reference})));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return StepFacts(Scratch() / name);
  };
  EXPECT_EQ(train("experts_by_path", dots1), train("experts_cached", "cached"));
  train("no_biases", "tests/testdata/qwen3_moe_tiny");
}

// Accumulated over four micro-batches on one rank, and one micro-batch on each of four.
TEST(TrainPreferencesTest, JudgementsHaveTheSameBitsAtOtherRanks) {
  const Flags kto = {"--objective=kto", kJudgements, "--lora_rank=2", "--lr=1e-2",
                     "--undesirable_weight=0.5"};
  const fs::path whole = Scratch() / "kto";
  const Outcome run = RunTrainer(OfPairs(whole, With(kto, {"--world_size=1"})));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(absl::StrContains(run.output, "12 judged answers, 6 of them desirable"))
      << run.output;
  const std::vector<nlohmann::json> metrics = Metrics(whole);
  EXPECT_EQ(metrics[0]["kl"].get<double>(), 0);
  for (const nlohmann::json& step : metrics) {
    if (!step.contains("step")) continue;  // the summary
    EXPECT_GE(step["kl"].get<double>(), 0);
    EXPECT_EQ(step.contains("eval_reward_margin"), step["step"].get<int>() % 2 == 0);
  }
  for (const Flags& layout : {Flags{"--world_size=4", "--strategy=full_shard"},
                              Flags{"--world_size=2", "--reference=cached"}}) {
    const fs::path out = Scratch() / absl::StrCat("kto_", layout[0].substr(13));
    const Outcome other = RunTrainer(OfPairs(out, With(kto, layout)));
    ASSERT_EQ(other.exit_code, 0) << other.output;
    EXPECT_EQ(StepFacts(out), StepFacts(whole));
    EXPECT_TRUE(Read(out / "final/model.safetensors") == Read(whole / "final/model.safetensors"));
  }
}

// transformers' AutoModelForSequenceClassification loads the run's model, and a further run trains
// it.
TEST(TrainPreferencesTest, RewardModelsHaveAHeadThatScores) {
  const Flags reward = {"--objective=reward", "--lr=1e-2"};
  const fs::path out = Scratch() / "reward";
  const Outcome run = RunTrainer(OfPairs(out, With(reward, {"--sample_tokens=8"})));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json config = nlohmann::json::parse(Read(out / "final/config.json"));
  EXPECT_EQ(config["architectures"], nlohmann::json({"LlamaForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], nlohmann::json({{"0", "LABEL_0"}}));
  const auto written = zeroth::HfDirectory::Open((out / "final").string());
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->weights().Find("lm_head.weight"), nullptr);
  ASSERT_NE(written->weights().Find("score.weight"), nullptr);
  EXPECT_EQ(written->weights().Find("score.weight")->shape, zeroth::Shape({1, 60}));

  // A run that only evaluates writes no metrics, and prints its result in the same words.
  const auto evaluation = [](const Outcome& outcome) {
    const size_t begin = outcome.output.rfind("evaluation loss");
    if (begin == std::string::npos) return outcome.output;
    return outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
  };
  EXPECT_TRUE(absl::StrContains(evaluation(run), "margin")) << run.output;
  const Outcome evaluated = RunTrainer(OfPairs(
      Scratch() / "again", With(reward, {"--steps=0", "--init_from=" + (out / "final").string()})));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_EQ(evaluation(evaluated), evaluation(run));

  const fs::path adapter = Scratch() / "adapter";
  const Outcome of_adapter =
      RunTrainer(OfPairs(adapter, With(reward, {"--lora_rank=2", "--lora_export=adapter"})));
  ASSERT_EQ(of_adapter.exit_code, 0) << of_adapter.output;
  const nlohmann::json peft =
      nlohmann::json::parse(Read(adapter / "final_adapter/adapter_config.json"));
  EXPECT_EQ(peft["task_type"], "SEQ_CLS");
  EXPECT_EQ(peft["modules_to_save"], nlohmann::json({"score"}));
  const Outcome loaded = RunTrainer(OfPairs(
      Scratch() / "further",
      With(reward, {"--init_adapter=" + (adapter / "final_adapter").string(), "--steps=0"})));
  ASSERT_EQ(loaded.exit_code, 0) << loaded.output;
  EXPECT_EQ(evaluation(loaded), evaluation(of_adapter));

  const Outcome as_text = RunTrainer(
      OfPairs(Scratch() / "text", {"--objective=dpo", "--init_from=" + (out / "final").string()}));
  EXPECT_NE(as_text.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(as_text.errors, "expected --objective=reward")) << as_text.output;
}

TEST(TrainPreferencesTest, PlansMemoryOfItsSteps) {
  for (const Flags& objective : kObjectives) {
    const Outcome plan = RunTrainer(
        With(OfPairs(Scratch() / "planned", objective), {"--dry_run", "--world_size=1"}));
    EXPECT_EQ(plan.exit_code, 0) << plan.output;
  }
}

TEST(TrainPreferencesTest, RefusesWhatDoesNotFit) {
  const fs::path text = Scratch() / "text.txt";
  Write(text, "Some text.\n");
  const struct {
    Flags flags;
    std::string problem;
  } kCases[] = {
      {{"--objective=dpo", "--loss_on=all"}, "only the answers are learned"},
      {{"--objective=dpo", "--on_long=split"}, "take truncate, drop or refuse"},
      {{"--objective=dpo", "--attend_within=sequence"}, "must not attend to each other"},
      {{"--objective=dpo", "--reference=adapter_off"}, "give --lora_rank"},
      {{"--objective=dpo", "--reference=adapter_off", "--lora_rank=2",
        "--lora_modules_to_save=lm_head"},
       "use cached"},
      {{"--objective=orpo", "--reference=cached"}, "only dpo, ipo and kto"},
      {{"--objective=dpo", "--reference="}, "it names no model"},
      {{"--objective=dpo", "--reference=adapters_off"}, "expected auto, cached, adapter_off or a"},
      {{"--objective=dpo", "--reference=tests/testdata/gpt2_tiny"}, "rotary positions"},
      {{"--objective=dpo", "--reference=tests/testdata/tokenizers"}, "--reference="},
      {{"--objective=kto", kJudgements, "--reference=adapter_off"}, "give --lora_rank"},
      {{"--objective=dpo", "--desirable_weight=2"}, "only kto"},
      {{"--objective=dpo", "--undesirable_weight=2"}, "only kto"},
      {{"--objective=kto", kJudgements, "--desirable_weight=0", "--undesirable_weight=0"},
       "nothing is learned"},
      {{"--objective=kto", "--data=" + text.string()}, "learns from judged answers"},
      {{"--objective=orpo", "--preference_label_smoothing=0.1"}, "only dpo and simpo"},
      {{"--objective=dpo", "--simpo_gamma=2"}, "only simpo"},
      {{"--objective=dpo", "--center_rewards_coefficient=0.1"}, "only reward"},
      {{"--objective=reward", "--preference_beta=0.3"}, "only dpo, ipo, simpo, orpo and kto"},
      {{"--objective=reward", "--reference=cached"}, "only dpo, ipo and kto"},
      {{"--objective=reward", "--init_from=", "--model=gpt2_nano"}, "rotary positions"},
      {{"--preference_beta=0.3"}, "leave it out"},
      {{"--objective=dpo", "--preference_label_smoothing=0.5"}, "below 0.5"},
      {{}, "--objective=dpo"},  // what the data are for
      {{"--objective=dpo", "--data=" + text.string()}, "learns from pairs"},
      {{"--objective=dpo", "--data=tests/testdata/llama_tiny/tokens.npy"}, "learns from pairs"},
      {{"--objective=dpo", "--init_from=", "--model=gpt2_nano"}, "rotary positions"},
  };
  for (const auto& wrong : kCases) {
    SCOPED_TRACE(testing::PrintToString(wrong.flags));
    const Outcome run = RunTrainer(OfPairs(Scratch() / "refused", wrong.flags));
    EXPECT_NE(run.exit_code, 0);
    EXPECT_TRUE(absl::StrContains(run.errors, wrong.problem)) << run.output;
    EXPECT_FALSE(fs::exists(Scratch() / "refused"));
  }
}

}  // namespace
