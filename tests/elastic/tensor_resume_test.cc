// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Resumes training with tensor parallelism: the number of tensor ranks, the world size and the
// strategy change from checkpoint to checkpoint, and the exported model is plain.

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace {

using namespace zeroth::testing;  // NOLINT: all of it is for these tests

Flags Training(const fs::path& out, const Flags& more) {
  return With(
      {"--init_from=tests/testdata/gpt2_tiny", "--data=tests/testdata/gpt2_tiny/tokens.npy",
       "--eval_data=tests/testdata/gpt2_tiny/tokens.npy", "--eval_every=3", "--eval_batches=2",
       "--seq_len=32", "--lr=1e-2", "--warmup_steps=3", "--sample_tokens=0", "--steps=9",
       "--checkpoint_every=3", "--keep_last=0", "--out=" + out.string()},
      more);
}

std::string MustRun(const Flags& flags) {
  const Outcome run = RunTrainer(flags);
  EXPECT_EQ(run.exit_code, 0) << run.output << run.errors;
  return run.output;
}

std::string Resume(const fs::path& out, int step) {
  return "--resume=" + (out / ("step-0000000" + std::to_string(step))).string();
}

std::string Model(const fs::path& out) { return Read(out / "final/model.safetensors"); }

double LastLoss(const fs::path& out, const char* key) {
  double loss = 0;
  for (const nlohmann::json& line : Metrics(out)) {
    if (line.contains("step") && line.contains(key)) loss = line[key].get<double>();
  }
  return loss;
}

// Trains alone, and from checkpoint to checkpoint with two tensor ranks, with four, and with one,
// and expects the same bits in these files. `in_four` and `in_one` are further flags of the last
// two.
void ExpectThatHopsKeepTheBits(const fs::path& out, const Flags& fixed, const Flags& in_four,
                               const Flags& in_one,
                               const Flags& files = {"final/model.safetensors"}) {
  MustRun(Training(out / "alone", With(fixed, {"--world_size=1"})));
  MustRun(Training(out / "2", With(fixed, {"--world_size=4", "--tensor_parallel=2"})));
  MustRun(Training(out / "4",
                   With(With(fixed, {"--tensor_parallel=4", Resume(out / "2", 3)}), in_four)));
  MustRun(Training(out / "1", With(With(fixed, {"--world_size=2", Resume(out / "4", 6)}), in_one)));
  for (const std::string& file : files) {
    for (const char* run : {"2", "4", "1"}) {
      EXPECT_TRUE(Read(out / run / file) == Read(out / "alone" / file)) << run << " " << file;
    }
  }
}

// With fixed pieces and a fixed batch, no change of ranks changes a bit.
TEST(TensorResumeTest, HopsOverWorldsStrategiesAndTensorRanksKeepTheBits) {
  const fs::path out = Scratch();
  const Flags fixed = {"--deterministic_batch=8", "--deterministic_tensor=4", "--batch_size=1",
                       "--ema_decay=0.9"};
  MustRun(Training(out / "alone", With(fixed, {"--world_size=1", "--strategy=no_shard"})));
  MustRun(Training(out / "2", With(fixed, {"--world_size=4", "--tensor_parallel=2"})));
  MustRun(Training(out / "1", With(fixed, {"--world_size=2", "--strategy=shard_grad_op",
                                           Resume(out / "2", 3)})));
  const std::string said = MustRun(Training(
      out / "4", With(fixed, {"--world_size=8", "--tensor_parallel=4", "--strategy=hybrid_shard",
                              "--shard_size=1", Resume(out / "1", 6), "--async_checkpoint"})));
  EXPECT_EQ(said.find("with other flags"), std::string::npos) << said;
  for (const char* run : {"2", "1", "4"}) {
    EXPECT_TRUE(Model(out / run) == Model(out / "alone")) << run << " has other bits";
    EXPECT_TRUE(Read(out / run / "final_ema/model.safetensors") ==
                Read(out / "alone/final_ema/model.safetensors"))
        << run << " has another average";
    EXPECT_EQ(LastLoss(out / run, "loss"), LastLoss(out / "alone", "loss")) << run;
    EXPECT_EQ(LastLoss(out / run, "eval_loss"), LastLoss(out / "alone", "eval_loss")) << run;
  }
}

// The momentum of Muon's matrices is saved undivided, too.
TEST(TensorResumeTest, HopsOfMuonKeepTheBits) {
  const fs::path out = Scratch();
  const Flags fixed = {"--deterministic_batch=4", "--deterministic_tensor=4", "--batch_size=1",
                       "--optimizer=muon",        "--muon_split_qkv",         "--lr=1e-3"};
  ExpectThatHopsKeepTheBits(out, fixed, {"--world_size=8", "--strategy=no_shard"}, {});
}

// Adapters too, which are exported merged and by themselves.
TEST(TensorResumeTest, HopsOfAdaptersKeepTheBits) {
  const fs::path out = Scratch();
  const Flags fixed = {"--deterministic_batch=4", "--deterministic_tensor=4", "--batch_size=1",
                       "--lora_rank=3",           "--lora_export=both",       "--ema_decay=0.9"};
  ExpectThatHopsKeepTheBits(out, fixed, {"--world_size=4"}, {"--strategy=no_shard"},
                            {"final/model.safetensors", "final_ema/model.safetensors",
                             "final_adapter/adapter_model.safetensors"});
  // Training of the adapter continues in divided layers.
  MustRun(Training(out / "again", {"--world_size=2", "--tensor_parallel=2",
                                   "--init_adapter=" + (out / "4/final_adapter").string()}));
}

// OLMo 2, whose norms of queries and keys are over all heads.
TEST(TensorResumeTest, HopsWithNormsOverAllHeadsKeepTheBits) {
  const Flags fixed = {"--init_from=tests/testdata/olmo2_tiny", "--deterministic_batch=4",
                       "--deterministic_tensor=4", "--batch_size=1"};
  ExpectThatHopsKeepTheBits(Scratch(), fixed, {"--world_size=4"}, {"--strategy=shard_optimizer"});
}

// Linear attention, whose convolution has three dimensions and is divided in sections.
TEST(TensorResumeTest, HopsOfLinearAttentionKeepTheBits) {
  const fs::path out = Scratch();
  nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/qwen3_5_tiny/config.json"));
  config["num_key_value_heads"] = config["linear_num_key_heads"] = 4;
  config["linear_num_value_heads"] = 8;
  Write(out / "config.json", config.dump());
  const Flags model = {"--init_from=", "--model=" + (out / "config.json").string(),
                       "--deterministic_batch=4", "--deterministic_tensor=4", "--batch_size=1"};
  for (const Flags& more : {Flags(), Flags{"--optimizer=muon", "--muon_split_qkv", "--lr=1e-3"}}) {
    ExpectThatHopsKeepTheBits(out / (more.empty() ? "adamw" : "muon"), With(model, more),
                              {"--world_size=4"}, {"--strategy=shard_optimizer"});
  }
}

// A mixture of experts that is balanced, with a dense layer and norms of heads.
TEST(TensorResumeTest, HopsOfExpertsKeepTheBits) {
  const fs::path out = Scratch();
  nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/qwen3_moe_tiny/config.json"));
  config["num_hidden_layers"] = 3;
  config["num_key_value_heads"] = 4;
  config["mlp_only_layers"] = {1};
  config["output_router_logits"] = true;
  config["router_aux_loss_coef"] = 0.1;
  Write(out / "config.json", config.dump());
  const Flags fixed = {"--init_from=", "--model=" + (out / "config.json").string(),
                       "--deterministic_batch=4", "--deterministic_tensor=4", "--batch_size=1"};
  ExpectThatHopsKeepTheBits(out, fixed, {"--world_size=4"}, {"--strategy=no_shard"});
  for (const char* run : {"2", "4", "1"}) {
    EXPECT_EQ(LastLoss(out / run, "loss"), LastLoss(out / "alone", "loss")) << run;
    EXPECT_EQ(LastLoss(out / run, "eval_loss"), LastLoss(out / "alone", "eval_loss")) << run;
  }
  // The export is the plain model, of which each rank reads its parts.
  const Flags again = {"--init_from=" + (out / "4/final").string(), "--deterministic_batch=4",
                       "--deterministic_tensor=4", "--batch_size=1", "--steps=3"};
  MustRun(Training(out / "whole", With(again, {"--world_size=1"})));
  MustRun(Training(out / "parts", With(again, {"--world_size=4", "--tensor_parallel=4"})));
  EXPECT_TRUE(Model(out / "parts") == Model(out / "whole"));
}

// Without deterministic pieces the results agree within rounding, and sampling, clipping and saving
// work as usual.
TEST(TensorResumeTest, HopsWithoutFixedPiecesTrainTheSameModel) {
  const fs::path out = Scratch();
  const Flags batch = {"--global_batch_size=8", "--lr=1e-3"};
  MustRun(Training(out / "alone", With(batch, {"--world_size=1"})));
  const std::string said = MustRun(Training(
      out / "2",
      With(batch, {"--world_size=4", "--tensor_parallel=2", "--sequence_parallel",
                   "--optimizer_state_dtype=bf16", "--skip_loss_zscore=5", "--offload=all"})));
  EXPECT_NE(said.find("each layer is divided among 2 ranks"), std::string::npos) << said;
  MustRun(Training(out / "1", With(batch, {"--world_size=2", Resume(out / "2", 3)})));
  const std::string resumed = MustRun(Training(
      out / "4", With(batch, {"--world_size=4", "--tensor_parallel=4", Resume(out / "1", 6)})));
  EXPECT_NE(resumed.find("--tensor_parallel is 4, was 1"), std::string::npos) << resumed;
  for (const char* run : {"2", "1", "4"}) {
    EXPECT_NEAR(LastLoss(out / run, "loss"), LastLoss(out / "alone", "loss"), 1e-3) << run;
  }
  // The exported plain model can be trained further without tensor ranks, and evaluates the same.
  const Outcome again = RunTrainer(With(
      Training(out / "again", batch), {"--init_from=" + (out / "4/final").string(), "--steps=0"}));
  EXPECT_EQ(again.exit_code, 0) << again.output << again.errors;
  EXPECT_NE(again.output.find("eval"), std::string::npos) << again.output;
}

// Shards are sent in int8; sums of activations over tensor ranks are not quantised. All tensor
// ranks round their replicated state alike, or the comparison before each checkpoint would end the
// run.
TEST(TensorResumeTest, Int8TrafficOfPartsTrainsAsThatOfWholeParameters) {
  const fs::path out = Scratch();
  const Flags batch = {"--global_batch_size=8", "--lr=1e-3"};
  const Flags int8 = With(batch, {"--quantized_weights", "--quantized_gradients"});
  const Flags divided = {"--world_size=4", "--tensor_parallel=2"};
  MustRun(Training(out / "exact", With(batch, divided)));
  MustRun(Training(out / "undivided", With(int8, {"--world_size=2"})));
  MustRun(Training(out / "full", With(int8, divided)));
  const double exact = LastLoss(out / "exact", "loss");
  EXPECT_NEAR(LastLoss(out / "full", "loss"), LastLoss(out / "undivided", "loss"), 0.002 * exact);
  EXPECT_NEAR(LastLoss(out / "full", "loss"), exact, 0.002 * exact);
  EXPECT_FALSE(Model(out / "full") == Model(out / "exact")) << "nothing was sent in int8";
  for (const char* strategy : {"shard_optimizer", "shard_grad_op"}) {
    MustRun(Training(out / strategy,
                     With(int8, With(divided, {std::string("--strategy=") + strategy}))));
    EXPECT_TRUE(Model(out / strategy) == Model(out / "full")) << strategy << " has other bits";
  }
}

TEST(TensorResumeTest, WhatCannotBeIsSaid) {
  const auto expect_error = [](const Flags& flags, const std::string& words) {
    const Outcome run = RunTrainer(Training(Scratch() / "refused", flags));
    EXPECT_EQ(run.exit_code, 1) << run.output;
    EXPECT_NE(run.errors.find(words), std::string::npos) << words << " in " << run.errors;
  };
  expect_error({"--tensor_parallel=2", "--world_size=3"}, "does not divide the 3 ranks");
  expect_error({"--tensor_parallel=8", "--world_size=8"}, "4 heads cannot be divided among 8");
  expect_error({"--deterministic_tensor=2", "--world_size=2", "--quantized_weights"},
               "what shares an int8 scale");
  expect_error({"--sequence_parallel", "--world_size=2"}, "needs --tensor_parallel");
  expect_error({"--tensor_parallel=2", "--world_size=2", "--deterministic_tensor=3"},
               "expected a power of two");
  expect_error({"--init_from=tests/testdata/qwen3_moe_tiny", "--deterministic_tensor=16"},
               "40 outputs cannot be divided among 16 deterministic pieces");
  expect_error({"--init_from=tests/testdata/olmo2_tiny", "--tensor_parallel=8", "--world_size=8"},
               "4 heads cannot be divided among 8");
}

}  // namespace
