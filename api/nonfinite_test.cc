// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes a known value overflow in a step, and expects Trainer::FindNonFinite to name the operation.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/activation_checkpointing.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The value of a parameter at one place, or, if that is negative, everywhere.
struct Change {
  std::string parameter;
  int64_t element = -1;
  float value = 0;
};

struct Case {
  std::string strategy = "full_shard";
  std::vector<Change> changes = {};
  double loss_scale = 0;  // a fixed one
  ActivationCheckpointing checkpointing = ActivationCheckpointing::kNone;
  std::vector<Change> of_teacher = {};  // if there are any, a model like this one teaches
};

// Fills the memory that the next activations get with NaNs.
absl::Status SpoilFreeMemory(Device& device) {
  std::vector<Tensor> tensors;
  for (const int64_t numel : {96, 288, 384}) {  // batch * seq times 16, 48 and 64
    for (int i = 0; i < 50; ++i) {
      ZEROTH_ASSIGN_OR_RETURN(
          const Tensor tensor,
          Tensor::Empty(device, Shape({numel}), DType::kFloat32, MemoryCategory::kActivations));
      std::fill_n(tensor.data<float>(), numel, std::numeric_limits<float>::quiet_NaN());
      tensors.push_back(tensor);
    }
  }
  return absl::OkStatus();
}

// Token 12 is in the second micro-batch of rank 1 alone.
std::vector<Batch> MicroBatches(int rank) {
  std::vector<Batch> batches;
  for (int i = 0; i < 2; ++i) {
    Batch batch;
    batch.batch = 2;
    batch.seq = 3;
    for (int token = 0; token < 6; ++token) {
      batch.inputs.push_back((7 * token + 5 * rank + 3 * i) % 12);
      batch.targets.push_back((5 * token + 2 * rank + i) % 12);
    }
    if (rank == 1 && i == 1) batch.inputs[4] = 12;
    batches.push_back(std::move(batch));
  }
  return batches;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> BuildModel() {
  const nlohmann::json config = {
      {"model_type", "gpt2"}, {"vocab_size", 13}, {"n_positions", 8},          {"n_embd", 16},
      {"n_layer", 2},         {"n_head", 2},      {"layer_norm_epsilon", 1e-5}};
  return ModelRegistry::Create(config);
}

absl::Status Load(Trainer& trainer, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const std::vector<Parameter*> parameters = trainer.sharding().parameters();
    EXPECT_TRUE(std::any_of(parameters.begin(), parameters.end(), [&](const Parameter* parameter) {
      return parameter->name() == change.parameter;
    })) << change.parameter;
  }
  return trainer.sharding().Load(
      [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
        parameter.initializer().Fill(/*seed=*/3, parameter.name(), begin, out);
        for (const Change& change : changes) {
          if (parameter.name() != change.parameter) continue;
          for (size_t i = 0; i < out.size(); ++i) {
            if (change.element < 0 || begin + static_cast<int64_t>(i) == change.element) {
              out[i] = change.value;
            }
          }
        }
        return absl::OkStatus();
      });
}

absl::Status Find(Communicator& world, const Case& setup, std::string& found) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildModel());
  TrainerOptions options;
  options.sharding.strategy = setup.strategy;
  options.sharding.strategy_options.shard_size = setup.strategy == "hybrid_shard" ? 1 : 0;
  options.activation_checkpointing = setup.checkpointing;
  if (setup.loss_scale > 0) {
    options.loss_scaler = LossScalerOptions();
    options.loss_scaler->dynamic = false;
    options.loss_scaler->initial_scale = setup.loss_scale;
    options.loss_scaler->max_scale = setup.loss_scale;
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, *device));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(*rank, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(Load(*trainer, setup.changes));
  if (!setup.of_teacher.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(model, BuildModel());
    for (Parameter* parameter : model->Parameters()) parameter->set_requires_grad(false);
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> teacher,
                            Trainer::Create(*rank, std::move(model), options));
    ZEROTH_RETURN_IF_ERROR(Load(*teacher, setup.of_teacher));
    ZEROTH_RETURN_IF_ERROR(trainer->SetTeacher(std::move(teacher)));
  }
  const std::vector<Batch> batches = MicroBatches(world.rank());
  ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batches, 1e-2));
  EXPECT_EQ(result.skipped, !setup.changes.empty() || !setup.of_teacher.empty());
  ZEROTH_RETURN_IF_ERROR(SpoilFreeMemory(*device));
  ZEROTH_ASSIGN_OR_RETURN(found, trainer->FindNonFinite(batches));
  // The trainer is as it was.
  ZEROTH_ASSIGN_OR_RETURN(const StepResult again, trainer->Step(batches, 1e-2));
  EXPECT_EQ(again.skipped, result.skipped);
  return absl::OkStatus();
}

// Returns FindNonFinite's text, which must be the same on all ranks.
std::string Find(const Case& setup) {
  std::vector<std::string> found(2);
  const absl::Status status = RunLocalRanks(2, [&](Communicator& world) {
    return Find(world, setup, found[static_cast<size_t>(world.rank())]);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(found[0], found[1]);
  return found[0];
}

TEST(NonFiniteTest, AParameterThatIsNotFiniteItself) {
  for (const char* strategy : {"no_shard", "full_shard", "hybrid_shard"}) {
    const Change change = {"transformer.h.1.attn.c_attn.weight", 21,
                           std::numeric_limits<float>::quiet_NaN()};
    EXPECT_THAT(Find({strategy, {change}}),
                StartsWith("on rank 0: parameter 'transformer.h.1.attn.c_attn.weight' of unit "
                           "'transformer.h.1' is not finite itself, in the forward of micro-batch "
                           "1: 1 of 768 values, the first of them nan at [0, 21]"));
  }
}

// A normalised row times 3e38 is more than fp32 holds.
TEST(NonFiniteTest, AMatmulThatOverflows) {
  EXPECT_THAT(Find({"no_shard", {{"transformer.h.0.mlp.c_fc.weight", -1, 3e38f}}}),
              HasSubstr("in the forward of micro-batch 1, the first operation with values that are "
                        "not finite is Gemm with parameter 'transformer.h.0.mlp.c_fc"));
}

// Token and position embedding add up to an overflow only for this token at this position, which
// occurs in rank 1's second micro-batch.
TEST(NonFiniteTest, WhatOneRankAloneHasSeen) {
  const std::string found = Find({"full_shard",
                                  {{"transformer.wte.weight", 12 * 16 + 3, 1e37f},
                                   {"transformer.wpe.weight", 1 * 16 + 3, 3.35e38f}}});
  EXPECT_THAT(found, StartsWith("on rank 1: in the forward of micro-batch 2, the first operation"));
  EXPECT_THAT(found, HasSubstr("with parameter 'transformer.w"));
  EXPECT_THAT(found, HasSubstr("the first of them inf at ["));
}

// The layer's input is zero, so its huge weights overflow only in backward, in the gradient of that
// input.
TEST(NonFiniteTest, AGradientThatOverflows) {
  EXPECT_THAT(Find({"no_shard",
                    {{"transformer.h.1.ln_2.weight", -1, 0.0f},
                     {"transformer.h.1.mlp.c_fc.weight", -1, 3e38f}},
                    0x1.0p+30}),
              HasSubstr("in the backward of micro-batch 1, the first operation with values that "
                        "are not finite is Gemm with parameter 'transformer.h.1.mlp.c_fc.weight' "
                        "of unit 'transformer.h.1': its c "));
}

TEST(NonFiniteTest, ATeacher) {
  const auto found = [](const char* strategy, const std::vector<Change>& changes) {
    return Find({.strategy = strategy, .of_teacher = changes});
  };
  const float inf = std::numeric_limits<float>::infinity();
  for (const char* strategy : {"no_shard", "full_shard"}) {
    EXPECT_THAT(
        found(strategy, {{"transformer.h.1.attn.c_attn.weight", 21, inf}}),
        StartsWith("on rank 0: the teacher's parameter 'transformer.h.1.attn.c_attn.weight' "
                   "of unit 'transformer.h.1' is not finite itself, in the teacher's "
                   "forward of micro-batch 1: 1 of 768 values, the first of them inf"));
  }
  EXPECT_THAT(
      found("full_shard", {{"transformer.h.0.mlp.c_fc.weight", -1, 3e38f}}),
      HasSubstr("in the teacher's forward of micro-batch 1, the first operation with values "
                "that are not finite is Gemm with the teacher's parameter "
                "'transformer.h.0.mlp.c_fc"));
  // Its logits are computed beside the student's.
  EXPECT_THAT(
      found("no_shard",
            {{"transformer.ln_f.weight", -1, 8e37f}, {"transformer.wte.weight", -1, 30.0f}}),
      HasSubstr("in the forward of micro-batch 1, the first operation with values that are "
                "not finite is Gemm with the teacher's parameter 'transformer.wte.weight'"));
}

TEST(NonFiniteTest, AStepThatIsFiniteTheSecondTime) {
  EXPECT_THAT(Find(Case()), StartsWith("in a repetition, every value of the step is finite"));
  // No operation sees results that a second forward leaves out.
  for (const auto what : {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
                          ActivationCheckpointing::kElementwise, ActivationCheckpointing::kMlp}) {
    Case computed_again;
    computed_again.checkpointing = what;
    EXPECT_THAT(Find(computed_again),
                StartsWith("in a repetition, every value of the step is finite"));
  }
}

}  // namespace
}  // namespace zeroth
