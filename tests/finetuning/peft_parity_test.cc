// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains adapters that PEFT wrote, or will read, and compares with PEFT in float64
// (tests/testdata/peft).

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/options/options.h"
#include "zeroth/tests/finetuning/tiny_run.h"
#include "zeroth/train/model_source.h"

namespace zeroth::testing {
namespace {

constexpr int64_t kRows = 8;  // of a step
constexpr int64_t kLength = 32;

constexpr ActivationCheckpointing kKeep = ActivationCheckpointing::kNone;

struct ParityRun {
  std::string strategy = "no_shard";
  int world_size = 1;
  TensorParallelOptions tensor;
  ActivationCheckpointing recompute = ActivationCheckpointing::kNone;
};

// Names and layouts are PEFT's.
struct Record {
  std::vector<double> losses;
  std::vector<double> norms;
  NamedValues gradients;  // of step 0
  NamedValues final_values;

  bool operator==(const Record&) const = default;
};

class PeftParityTest : public ::testing::TestWithParam<const char*> {
 protected:
  bool IsTied() const { return absl::EndsWith(GetParam(), "_tied"); }
  std::string Folder() const { return absl::StrCat("tests/testdata/peft/", GetParam()); }

  absl::StatusOr<NamedValues> Stored(const char* file) const {
    ZEROTH_ASSIGN_OR_RETURN(NamedValues values, PeftFile(absl::StrCat(Folder(), "/", file)));
    // PEFT stores a tied head a second time.
    if (IsTied()) values.erase("base_model.model.lm_head.weight");
    return values;
  }

  absl::StatusOr<Record> Expected() const {
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                            ReadJsonFile(absl::StrCat(Folder(), "/expected.json")));
    Record record;
    record.losses = json["loss"].get<std::vector<double>>();
    record.norms = json["grad_norm"].get<std::vector<double>>();
    ZEROTH_ASSIGN_OR_RETURN(record.gradients, Stored("grads_step0.safetensors"));
    ZEROTH_ASSIGN_OR_RETURN(record.final_values, Stored("final.safetensors"));
    return record;
  }

  // Trains what --init_adapter reads.
  absl::StatusOr<Record> Train(const ParityRun& setup) const {
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                            ReadJsonFile(absl::StrCat(Folder(), "/expected.json")));
    const std::string base = absl::StrCat("tests/testdata/", json["base"].get<std::string>());
    TrainOptions options;
    options.init_from = base;
    options.init_adapter = Folder();
    if (json.value("base_dtype", "") == "nf4") options.base_dtype = BaseDtype::kNf4;
    const std::string tokens_of =
        absl::StrCat("tests/testdata/", json.value("tokens", json["base"].get<std::string>()));
    ZEROTH_ASSIGN_OR_RETURN(options, WithInitAdapter(options));
    ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(options));
    Record record;
    Collector gradients;
    Collector values;
    const absl::Status trained =
        RunLocalRanks(setup.world_size, [&](Communicator& world) -> absl::Status {
          ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                                  DeviceRegistry::Create("cpu", DeviceOptions()));
          device->BindThread();
          ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source.Build());
          DataOptions data;
          data.vocab_size = static_cast<int32_t>(model->vocab_size());
          ZEROTH_ASSIGN_OR_RETURN(const auto tokens,
                                  OpenData(absl::StrCat(tokens_of, "/tokens.npy"), data));
          LoaderOptions rows;
          rows.world_size = world.size() / setup.tensor.size;
          rows.rank = world.rank() / setup.tensor.size;
          rows.batch_size = kRows / rows.world_size;
          rows.seq_len = kLength;
          rows.shuffle = false;
          ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(tokens, rows));
          TrainerOptions trainer_options;
          trainer_options.sharding.strategy = setup.strategy;
          trainer_options.tensor = setup.tensor;
          trainer_options.activation_checkpointing = setup.recompute;
          ZEROTH_ASSIGN_OR_RETURN(
              const std::unique_ptr<Trainer> trainer,
              Trainer::Create(world, *device, std::move(model), trainer_options));
          const ParameterReader reader = source.Reader(/*seed=*/0);
          ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(reader));
          ZEROTH_ASSIGN_OR_RETURN(const Batch first, loader.Load(0));
          ZEROTH_RETURN_IF_ERROR(trainer->ForwardBackward(first).status());
          ZEROTH_RETURN_IF_ERROR(gradients.PutGradients(trainer->sharding()));
          ZEROTH_RETURN_IF_ERROR(trainer->sharding().scheduler().EndStep());
          const size_t steps = json["loss"].size();
          for (size_t step = 0; step < steps; ++step) {
            ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(static_cast<int64_t>(step)));
            ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                                    trainer->Step(batch, json["lr"].get<double>()));
            if (world.rank() != 0) continue;
            record.losses.push_back(result.loss);
            record.norms.push_back(result.grad_norm);
          }
          return values.PutWeights(trainer->sharding());
        });
    ZEROTH_RETURN_IF_ERROR(trained);
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
    record.gradients = AsPeft(*model, gradients.values());
    record.final_values = AsPeft(*model, values.values());
    EXPECT_EQ(gradients.values().size(), record.gradients.size());
    return record;
  }
};

void ExpectReference(const Record& record, const Record& expected) {
  ASSERT_EQ(record.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(record.losses[step], expected.losses[step], 2e-5 * expected.losses[step]) << step;
    EXPECT_NEAR(record.norms[step], expected.norms[step], 1e-4 * expected.norms[step]) << step;
  }
  ExpectClose(record.gradients, expected.gradients, 2e-5);
  ExpectClose(record.final_values, expected.final_values, 1e-3);
}

TEST_P(PeftParityTest, LossesGradientsAndStepsArePefts) {
  const absl::StatusOr<Record> expected = Expected();
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int world_size : {1, 2, 4}) {
    SCOPED_TRACE(world_size);
    const absl::StatusOr<Record> whole = Train({"no_shard", world_size, {}, kKeep});
    ASSERT_TRUE(whole.ok()) << whole.status();
    ExpectReference(*whole, *expected);
    const absl::StatusOr<Record> sharded = Train({"full_shard", world_size, {}, kKeep});
    ASSERT_TRUE(sharded.ok()) << sharded.status();
    EXPECT_TRUE(*sharded == *whole);
    if (world_size > 2) continue;
    const absl::StatusOr<Record> recomputed =
        Train({"full_shard", world_size, {}, ActivationCheckpointing::kBlock});
    ASSERT_TRUE(recomputed.ok()) << recomputed.status();
    EXPECT_TRUE(*recomputed == *whole);
  }
}

TEST_P(PeftParityTest, SoAreThoseOfDividedLayers) {
  const absl::StatusOr<Record> expected = Expected();
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const bool shares_rows : {false, true}) {
    SCOPED_TRACE(shares_rows);
    const absl::StatusOr<Record> divided = Train({"full_shard", 4, {2, 0, shares_rows}, kKeep});
    ASSERT_TRUE(divided.ok()) << divided.status();
    ExpectReference(*divided, *expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, PeftParityTest,
                         ::testing::Values("gpt2_dora", "gpt2_lora", "llama31_tied", "llama_dora",
                                           "llama_lora", "llama_nf4", "llama_rslora", "llama_saved",
                                           "mixtral_lora", "qwen3_moe_lora", "qwen3_moe_nf4"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace zeroth::testing
