// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares training with tensor parallelism with reference runs in float64, and the runs with each
// other bit for bit. deterministic_pieces_test compares the bits of different numbers of ranks.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

// The strategies of SetupsFor whose groups fit into the data-parallel ranks.
std::vector<RunSetup> Divided(const std::string& model, int world_size, int size) {
  std::vector<RunSetup> setups = SetupsFor(model, world_size / size);
  for (RunSetup& setup : setups) {
    setup.world_size = world_size;
    setup.tensor.size = size;
  }
  return setups;
}

std::vector<RunSetup> AllSetups() {
  std::vector<RunSetup> setups;
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    for (const int world_size : {2, 4, 8}) {
      for (const RunSetup& setup : Divided(model, world_size, 2)) setups.push_back(setup);
    }
    for (const int world_size : {2, 4}) {
      RunSetup sequence = Divided(model, world_size, 2).back();
      sequence.tensor.sequence = true;
      setups.push_back(sequence);
    }
  }
  RunSetup four = Divided("gpt2_tiny", 4, 4).front();
  setups.push_back(four);
  // Sinks, norms over all heads, linear attention, and mixtures of experts.
  for (const char* model : {"gpt_oss_tiny", "olmo2_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"}) {
    for (const int world_size : {2, 4}) {
      for (const RunSetup& setup : Divided(model, world_size, 2)) setups.push_back(setup);
      RunSetup pieces = Divided(model, world_size, 2).back();
      pieces.tensor.deterministic = 4;
      setups.push_back(pieces);
    }
  }
  setups.push_back(Divided("olmo2_tiny", 4, 4).front());
  // Norms of heads, projections with and without biases or side by side, and Mixtral's experts.
  for (const char* model :
       {"gemma2_tiny", "gemma3_tiny", "gemma3_vision_tiny", "qwen3_tiny", "qwen2_tiny",
        "mistral_tiny", "mixtral_tiny", "llama31_tiny", "phi3_tiny"}) {
    setups.push_back(Divided(model, 4, 2).back());
  }
  for (const char* model : Families()) {
    RunSetup sequence = Divided(model, 4, 2).back();
    // The gate of a shared expert does not support it.
    sequence.tensor.sequence = std::string(model) != "qwen2_moe_tiny";
    setups.push_back(sequence);
  }
  return setups;
}

class TensorParallelTest : public OnTestDevice, public testing::WithParamInterface<RunSetup> {};

TEST_P(TensorParallelTest, MeetsTheReference) {
  const absl::StatusOr<TrainingRecord> reference = LoadReference(GetParam().model);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const TrainingRecord& record = Record(GetParam());
  ASSERT_EQ(record.losses.size(), reference->losses.size());
  for (size_t step = 0; step < record.losses.size(); ++step) {
    EXPECT_LE(Relative(record.losses[step], reference->losses[step]),
              step == 0 ? kFirstLossTolerance : kLossTolerance)
        << "loss of step " << step;
    EXPECT_LE(Relative(record.grad_norms[step], reference->grad_norms[step]),
              step == 0 ? kGradientTolerance : kLaterNormTolerance)
        << "gradient norm of step " << step;
  }
  ExpectClose(record.first_gradients, reference->first_gradients, kGradientTolerance, "gradient");
  ExpectFinalWeightsClose(GetParam().model, record.final_weights, reference->final_weights);
}

INSTANTIATE_TEST_SUITE_P(Strategies, TensorParallelTest, testing::ValuesIn(AllSetups()),
                         [](const testing::TestParamInfo<RunSetup>& instance) {
                           return instance.param.ToString();
                         });

using TensorSettingsTest = OnTestDevice;

// With tensor ranks, too, sharding over the other ranks changes no bit.
TEST_F(TensorSettingsTest, StrategiesGiveTheSameBits) {
  for (const char* model :
       {"gpt2_tiny", "llama_tiny", "olmo2_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"}) {
    const std::vector<RunSetup> setups = Divided(model, 4, 2);
    for (size_t i = 1; i < setups.size(); ++i) {
      SCOPED_TRACE(setups[i].ToString());
      ExpectSameBits(Record(setups.front()), Record(setups[i]));
    }
  }
}

TEST_F(TensorSettingsTest, OffloadLayoutAndRecomputationChangeNothing) {
  for (const char* model : {"gemma2_tiny", "gemma3_tiny", "gpt_oss_tiny", "llama_tiny",
                            "olmo2_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"}) {
    RunSetup plain = Divided(model, 4, 2).front();
    plain.strategy = "full_shard";
    plain.steps = 4;
    RunSetup offloaded = plain;
    offloaded.offload.parameters = offloaded.offload.gradients = offloaded.offload.optimizer = true;
    RunSetup rows = plain;
    rows.layout = LayoutKind::kRows;
    RunSetup recomputed = plain;
    recomputed.activation_checkpointing = ActivationCheckpointing::kBlock;
    RunSetup selective = plain;
    selective.activation_checkpointing = ActivationCheckpointing::kSelective;
    RunSetup elementwise = plain;
    elementwise.activation_checkpointing = ActivationCheckpointing::kElementwise;
    for (const RunSetup& variant : {offloaded, rows, recomputed, selective, elementwise}) {
      SCOPED_TRACE(variant.ToString());
      ExpectSameBits(Record(plain), Record(variant));
    }
    RunSetup sequence = plain;
    sequence.tensor.sequence = true;
    for (const auto what : {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
                            ActivationCheckpointing::kElementwise}) {
      RunSetup recomputed_sequence = sequence;
      recomputed_sequence.activation_checkpointing = what;
      ExpectSameBits(Record(sequence), Record(recomputed_sequence));
    }
  }
}

// In bf16, with gradient accumulation too, tensor parallelism is as close to the reference as a run
// without it.
TEST_F(TensorSettingsTest, Bf16IsAsGoodAsWithout) {
  for (const auto& [model, sequence] :
       {std::pair("llama_tiny", false), std::pair("llama_tiny", true),
        std::pair("gemma2_tiny", true), std::pair("gemma3_tiny", true),
        std::pair("olmo2_tiny", false), std::pair("qwen3_5_tiny", true),
        std::pair("qwen3_moe_tiny", true)}) {
    SCOPED_TRACE(model);
    RunSetup divided = Divided(model, 4, 2).front();
    divided.strategy = "full_shard";
    divided.precision.param_dtype = DType::kBFloat16;
    divided.precision.reduce_dtype = DType::kBFloat16;
    divided.micro_batches = 2;
    divided.sync_every_micro_batch = false;
    divided.tensor.sequence = sequence;
    const absl::StatusOr<TrainingRecord> reference = LoadReference(model);
    ASSERT_TRUE(reference.ok()) << reference.status();
    const TrainingRecord& record = Record(divided);
    ASSERT_EQ(record.losses.size(), reference->losses.size());
    for (size_t step = 0; step < record.losses.size(); ++step) {
      EXPECT_LE(Relative(record.losses[step], reference->losses[step]), 1e-2) << step;
    }
    // Rounded logits send some tokens to other experts, whose gradients are then far apart.
    if (std::string(model) == "qwen3_moe_tiny") continue;
    // gemma3_tiny has six layers: transformers' own gradients in bf16 are up to 0.12 off.
    const double tolerance = std::string(model) == "gemma3_tiny" ? 0.12 : 5e-2;
    NamedValues gradients = record.first_gradients;
    NamedValues expected = reference->first_gradients;
    // Those of linear attention's decays are 0.073 off without tensor ranks.
    ExpectClose(gradients, expected, std::max(tolerance, 0.1), "gradient");
    for (NamedValues* values : {&gradients, &expected}) {
      std::erase_if(*values, [](const auto& value) {
        return absl::EndsWith(value.first, "A_log") || absl::EndsWith(value.first, "dt_bias");
      });
    }
    ExpectClose(gradients, expected, tolerance, "gradient");
  }
}

}  // namespace
}  // namespace zeroth
