// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer's binary on real ranks: a mixture of experts, trained with the load-balancing loss.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

namespace fs = std::filesystem;

class BalanceRunTest : public ::testing::Test {
 protected:
  void SetUp() override { dir_ = Scratch(); }

  // Loss and norm of each step of a small model whose experts are balanced with this coefficient.
  std::vector<nlohmann::json> Train(const std::string& out, double coefficient, const Flags& more,
                                    const nlohmann::json& changes = nlohmann::json::object()) {
    nlohmann::json config =
        nlohmann::json::parse(Read("tests/testdata/qwen3_moe_tiny/config.json"));
    config.update(changes);
    config["output_router_logits"] = coefficient > 0;
    config["router_aux_loss_coef"] = coefficient;
    Write(dir_ / (out + ".json"), config.dump());
    const Outcome run = RunTrainer(
        With({"--model=" + (dir_ / (out + ".json")).string(),
              "--data=tests/testdata/qwen3_moe_tiny/tokens.npy", "--seq_len=32",
              "--eval_data=tests/testdata/qwen3_moe_tiny/tokens.npy", "--eval_batches=2",
              "--steps=4", "--lr=1e-3", "--lr_schedule=constant", "--warmup_steps=0",
              "--sample_tokens=0", "--threads_per_rank=1", "--out=" + (dir_ / out).string()},
             more));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    const std::vector<nlohmann::json> steps = StepFacts(dir_ / out);
    EXPECT_EQ(steps.size(), 4u);
    return steps;
  }
  // expert_load_max and experts_unused of each step.
  std::vector<std::pair<double, double>> Loads(const std::string& out) const {
    std::vector<std::pair<double, double>> loads;
    for (const nlohmann::json& step : Metrics(dir_ / out)) {
      if (!step.contains("step")) continue;
      loads.emplace_back(step.at("expert_load_max"), step.at("experts_unused"));
    }
    return loads;
  }
  std::string Weights(const std::string& out) const {
    return Read(dir_ / out / "final/model.safetensors");
  }

  fs::path dir_;
};

TEST_F(BalanceRunTest, NoBitDependsOnTheLayout) {
  const Flags run = {"--batch_size=2", "--deterministic_batch=4"};
  const auto alone = Train("alone", 0.1, With(run, {"--world_size=1"}));
  ASSERT_EQ(alone.size(), 4u);
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"two", {"--world_size=2", "--strategy=full_shard"}},
           {"replicated", {"--world_size=2", "--strategy=no_shard"}},
           {"four", {"--world_size=4", "--strategy=shard_grad_op"}},
           {"hybrid", {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"}},
           {"block", {"--world_size=2", "--activation_checkpointing=block"}},
           {"selective", {"--world_size=2", "--activation_checkpointing=selective"}},
           {"elementwise", {"--world_size=2", "--activation_checkpointing=elementwise"}},
           {"mlp", {"--world_size=1", "--activation_checkpointing=mlp"}}}) {
    EXPECT_EQ(Train(name, 0.1, With(run, more)), alone) << name;
    EXPECT_TRUE(Weights(name) == Weights("alone")) << name;
    EXPECT_EQ(Loads(name), Loads("alone")) << name;
  }
}

// Of equal logits the experts with the lower numbers are chosen: with weights of zero, 2 of 8 get
// all tokens.
TEST_F(BalanceRunTest, TheLoadOfExpertsIsReported) {
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"alone", {"--world_size=1", "--grad_accum=2"}},
           {"recomputed", {"--world_size=2", "--activation_checkpointing=block"}},
           {"divided", {"--world_size=4", "--tensor_parallel=2", "--sequence_parallel"}}}) {
    Train(name, 0, With(more, {"--batch_size=2", "--lr=0"}), {{"initializer_range", 0.0}});
    for (const auto& [largest, unused] : Loads(name)) {
      EXPECT_EQ(largest, 4) << name;
      EXPECT_EQ(unused, 0.75) << name;
    }
  }
}

// The reported loss includes the balance, and evaluations do not: at the first step all weights are
// the same. Of 8 experts that are nearly balanced it is just above top_k = 2.
TEST_F(BalanceRunTest, ItIsAddedInTrainingAlone) {
  const Flags run = {"--world_size=2", "--batch_size=2", "--eval_every=4"};
  const auto without = Train("without", 0, run);
  const auto with = Train("with", 0.5, run);
  ASSERT_EQ(without.size(), with.size());
  const double added = with[0]["loss"].get<double>() - without[0]["loss"].get<double>();
  EXPECT_GT(added, 0.5 * 2 * 0.99);
  EXPECT_LT(added, 0.5 * 2 * 1.5);
  const Flags untrained = With(run, {"--steps=4", "--lr=0"});
  EXPECT_EQ(Train("still", 0.5, untrained).back()["eval_loss"],
            Train("plain", 0, untrained).back()["eval_loss"]);
}

// A batch that is divided among ranks and micro-batches has the loss of the whole.
TEST_F(BalanceRunTest, TheMeanIsOverTheSequencesOfTheBatch) {
  const auto whole = Train("whole", 0.5, {"--world_size=1", "--batch_size=8"});
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"ranks", {"--world_size=4", "--batch_size=2"}},
           {"accumulated", {"--world_size=2", "--batch_size=1", "--grad_accum=4"}}}) {
    const auto parts = Train(name, 0.5, more);
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < 2; ++i) {
      for (const char* key : {"loss", "grad_norm"}) {
        const double expected = whole[i][key].get<double>();
        EXPECT_NEAR(parts[i][key].get<double>(), expected, 2e-5 * expected) << name << " " << key;
      }
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
