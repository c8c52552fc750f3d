// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer's binary on real ranks: a mixture of experts, trained with the load-balancing loss.

#include <cmath>
#include <cstdint>
#include <cstring>
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
                                    const nlohmann::json& changes = nlohmann::json::object(),
                                    size_t expected_steps = 4) {
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
    EXPECT_EQ(steps.size(), expected_steps);
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

  // Runs a small dots1 whose initial matrices have this standard deviation. Returns what it said.
  Outcome TrainWithBiases(const std::string& out, double initial, const Flags& more) {
    nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/dots1_tiny/config.json"));
    config["initializer_range"] = initial;
    Write(dir_ / (out + ".json"), config.dump());
    return RunTrainer(With({"--model=" + (dir_ / (out + ".json")).string(),
                            "--data=tests/testdata/dots1_tiny/tokens.npy", "--seq_len=32",
                            "--lr_schedule=constant", "--warmup_steps=0", "--sample_tokens=0",
                            "--threads_per_rank=1", "--out=" + (dir_ / out).string()},
                           more));
  }
  // The bias of a layer's experts in the model that a run has written.
  std::vector<float> Bias(const std::string& out, int layer) const {
    const std::string file = Weights(out);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    const nlohmann::json header = nlohmann::json::parse(file.substr(sizeof(length), length));
    const nlohmann::json& entry =
        header.at("model.layers." + std::to_string(layer) + ".mlp.gate.e_score_correction_bias");
    EXPECT_EQ(entry.at("dtype"), "F32");
    const size_t begin = entry.at("data_offsets")[0];
    std::vector<float> values(entry.at("shape")[0].get<size_t>());
    std::memcpy(values.data(), file.data() + sizeof(length) + length + begin,
                values.size() * sizeof(float));
    return values;
  }

  fs::path dir_;
};

// With weights of zero all scores are equal, so that the biases alone choose 2 of 8 experts, of
// equal ones those with the lower numbers: 0 and 1, then 2 and 3, then 4 and 5. These get all
// tokens of a step, and lose the rate; the others gain it.
TEST_F(BalanceRunTest, BiasesMoveTowardsBalance) {
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"alone", {"--world_size=1", "--grad_accum=2"}},
           {"three", {"--world_size=3", "--strategy=no_shard"}},
           {"recomputed", {"--world_size=2", "--activation_checkpointing=block"}},
           {"bf16",
            {"--world_size=2", "--param_dtype=bf16", "--router_dtype=fp32", "--export_dtype=bf16"}},
           {"divided", {"--world_size=4", "--tensor_parallel=2", "--sequence_parallel"}}}) {
    const Outcome run = TrainWithBiases(
        name, 0.0,
        With(more, {"--batch_size=2", "--lr=0", "--steps=3", "--router_bias_rate=0.001"}));
    ASSERT_EQ(run.exit_code, 0) << run.output;
    const float rate = 0.001f;
    const float once = -rate + rate + rate;
    const float thrice = rate + rate + rate;
    for (const int layer : {1, 2}) {
      EXPECT_THAT(Bias(name, layer),
                  ::testing::ElementsAre(once, once, ::testing::FloatEq(rate),
                                         ::testing::FloatEq(rate), ::testing::FloatEq(rate),
                                         ::testing::FloatEq(rate), thrice, thrice))
          << name;
    }
    for (const auto& [largest, unused] : Loads(name)) {
      EXPECT_EQ(largest, 4) << name;
      EXPECT_EQ(unused, 0.75) << name;
    }
  }
}

TEST_F(BalanceRunTest, NoBitOfBiasesDependsOnTheLayout) {
  const Flags run = {"--batch_size=2", "--deterministic_batch=4", "--steps=4",
                     "--lr=1e-3",      "--router_bias_rate=0.01", "--param_dtype=bf16"};
  const auto train = [&](const std::string& out, const Flags& more) {
    const Outcome outcome = TrainWithBiases(out, 0.1, With(run, more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  };
  train("alone", {"--world_size=1", "--checkpoint_every=2", "--keep_last=0"});
  EXPECT_NE(Bias("alone", 2), std::vector<float>(8, 0.0f));
  const auto checkpoint = "--resume=" + (dir_ / "alone/step-00000002").string();
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"two", {"--world_size=2", "--strategy=full_shard"}},
           {"grouped", {"--world_size=2", "--strategy=shard_grad_op"}},
           {"four", {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"}},
           {"owned",
            {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2",
             "--shard_optimizer_over_world"}},
           {"replicated", {"--world_size=4", "--strategy=no_shard"}},
           {"wrapped", {"--world_size=2", "--min_wrap_numel=100000"}},
           {"rows", {"--world_size=2", "--layout=rows"}},
           {"mlp", {"--world_size=2", "--activation_checkpointing=mlp"}},
           {"selective", {"--world_size=1", "--activation_checkpointing=selective"}},
           {"resumed", {"--world_size=2", checkpoint}}}) {
    train(name, more);
    EXPECT_TRUE(Weights(name) == Weights("alone")) << name;
  }
}

TEST_F(BalanceRunTest, BiasesThatCannotMoveAreRefused) {
  const Flags rate = {"--router_bias_rate=0.001", "--steps=1"};
  EXPECT_THAT(TrainWithBiases("offloaded", 0.02, With(rate, {"--offload=parameters"})).output,
              ::testing::HasSubstr("leave parameters out of offload"));
  EXPECT_THAT(TrainWithBiases("adapted", 0.02, With(rate, {"--lora_rank=2"})).output,
              ::testing::HasSubstr("router_bias_rate"));
  const Outcome run = RunTrainer(With({"--model=tests/testdata/qwen3_moe_tiny/config.json",
                                       "--data=tests/testdata/qwen3_moe_tiny/tokens.npy",
                                       "--seq_len=32", "--out=" + (dir_ / "none").string()},
                                      rate));
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, ::testing::HasSubstr("routers have no bias"));
}

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

TEST_F(BalanceRunTest, NoBitOfTheZLossDependsOnTheLayout) {
  const Flags run = {"--batch_size=2", "--deterministic_batch=4", "--router_z_loss=0.1",
                     "--router_dtype=fp32", "--param_dtype=bf16"};
  const auto alone = Train("alone", 0.1, With(run, {"--world_size=1"}));
  ASSERT_EQ(alone.size(), 4u);
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"two", {"--world_size=2", "--strategy=full_shard"}},
           {"four", {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"}},
           {"replicated", {"--world_size=4", "--strategy=no_shard"}},
           {"block", {"--world_size=2", "--activation_checkpointing=block"}},
           {"selective", {"--world_size=2", "--activation_checkpointing=selective"}}}) {
    EXPECT_EQ(Train(name, 0.1, With(run, more)), alone) << name;
    EXPECT_TRUE(Weights(name) == Weights("alone")) << name;
  }
  // A run that is resumed on other ranks continues with both.
  Train("saved", 0.1, With(run, {"--world_size=1", "--checkpoint_every=2", "--keep_last=0"}));
  const auto checkpoint = "--resume=" + (dir_ / "saved/step-00000002").string();
  Train("resumed", 0.1, With(run, {"--world_size=2", checkpoint}), nlohmann::json::object(),
        /*expected_steps=*/2);
  EXPECT_TRUE(Weights("resumed") == Weights("alone"));
}

// All logits of a router with zero weights are 0, so that z is log 8 in each layer.
TEST_F(BalanceRunTest, TheZLossIsAddedInTrainingAlone) {
  const double z2 = std::log(8.0) * std::log(8.0);
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"alone", {"--world_size=1", "--grad_accum=2"}},
           {"divided", {"--world_size=4", "--tensor_parallel=2", "--sequence_parallel"}}}) {
    const Flags run = With(more, {"--batch_size=2", "--lr=0", "--eval_every=4"});
    const nlohmann::json zeros = {{"initializer_range", 0.0}};
    const auto without = Train(name + "_without", 0, run, zeros);
    const auto with = Train(name, 0, With(run, {"--router_z_loss=0.5"}), zeros);
    EXPECT_NEAR(with[0]["loss"].get<double>() - without[0]["loss"].get<double>(), 0.5 * z2, 1e-5);
    EXPECT_EQ(with.back()["eval_loss"], without.back()["eval_loss"]);
  }
}

TEST_F(BalanceRunTest, AModelWithoutExpertsHasNoRouters) {
  for (const auto& [flag, name] : std::vector<std::pair<std::string, std::string>>{
           {"--router_z_loss=0.1", "router_z_loss"}, {"--router_dtype=fp32", "router_dtype"}}) {
    const Outcome run = RunTrainer({"--model=tests/testdata/llama_tiny/config.json",
                                    "--data=tests/testdata/llama_tiny/tokens.npy", "--seq_len=32",
                                    "--steps=1", flag, "--out=" + (dir_ / "refused").string()});
    EXPECT_NE(run.exit_code, 0);
    EXPECT_THAT(run.output, ::testing::HasSubstr(name + ": a llama without experts"));
  }
}

// If logits are equal, the experts with the lowest numbers are chosen: with weights of zero, 2 of 8
// get all tokens.
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
