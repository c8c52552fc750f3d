// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer's draws of dropout belong to samples and steps, not to ranks and micro-batches.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/ops/embedding.h"

namespace zeroth {
namespace {

constexpr int64_t kVocab = 11;
constexpr int64_t kSamples = 3;  // of a micro-batch
constexpr int64_t kSeq = 5;
constexpr int64_t kMicroBatches = 4;  // of a step, on all ranks
constexpr int kSteps = 3;

// A block whose only work is dropout.
class Block : public Module {
 public:
  using Module::Module;
  Role role() const override { return Role::kBlock; }
  absl::StatusOr<Value> Forward(Context& context, const Value& x) {
    return HookedOne(context, x, [this](Context& c, const Value& in) {
      return DropoutOp(c, in, /*rate=*/0.4f, name());
    });
  }
};

class Model : public LanguageModel {
 public:
  Model() : LanguageModel("") {
    weight_ = AddParameter("weight", Shape({kVocab, 7}), Initializer::Normal(0.5f));
    block_ = AddChild(std::make_unique<Block>("block"));
  }
  int64_t vocab_size() const override { return kVocab; }
  int64_t max_seq_len() const override { return kSeq; }
  nlohmann::json HfConfig() const override { return {}; }

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override {
    ZEROTH_ASSIGN_OR_RETURN(const Value x, EmbeddingOp(context, tokens, *weight_, nullptr));
    return block_->Forward(context, x);
  }
  Parameter& head() override { return *weight_; }
  int64_t MatmulWeights() const override { return kVocab * 7; }
  int64_t AttentionWidth() const override { return 0; }

 private:
  Parameter* weight_;
  Block* block_;
};

Batch MicroBatch(int64_t number) {
  Batch batch;
  batch.batch = kSamples;
  batch.seq = kSeq;
  for (int64_t i = 0; i < kSamples * kSeq; ++i) {
    batch.inputs.push_back(static_cast<int32_t>((number * 5 + i * i) % kVocab));
    batch.targets.push_back(static_cast<int32_t>((number + 3 * i) % kVocab));
  }
  return batch;
}

struct Run {
  int world_size = 1;
  std::string strategy = "full_shard";
  ActivationCheckpointing checkpointing = ActivationCheckpointing::kNone;
  uint64_t seed = 1;
  bool alike = false;  // all micro-batches, and all steps
  double lr = 0.01;
};

// The losses of rank 0: of each step, and of an evaluation at the end.
std::vector<float> Losses(const Run& run) {
  std::vector<float> losses;
  const absl::Status status =
      RunLocalRanks(run.world_size, [&](Communicator& world) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                                DeviceRegistry::Create("cpu", DeviceOptions()));
        device->BindThread();
        TrainerOptions options;
        options.sharding.strategy = run.strategy;
        options.activation_checkpointing = run.checkpointing;
        options.deterministic_batch = kMicroBatches;
        options.dropout_seed = run.seed;
        ZEROTH_ASSIGN_OR_RETURN(
            const std::unique_ptr<Trainer> trainer,
            Trainer::Create(world, *device, std::make_unique<Model>(), options));
        ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(5));
        const auto batches = [&](int step) {
          std::vector<Batch> mine;
          for (int64_t i = world.rank(); i < kMicroBatches; i += world.size()) {
            mine.push_back(MicroBatch(run.alike ? 0 : step * kMicroBatches + i));
          }
          return mine;
        };
        for (int step = 0; step < kSteps; ++step) {
          ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batches(step), run.lr));
          if (world.rank() == 0) losses.push_back(result.loss);
        }
        ZEROTH_ASSIGN_OR_RETURN(const StepResult evaluated, trainer->Evaluate(batches(kSteps)));
        if (world.rank() == 0) losses.push_back(evaluated.loss);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return losses;
}

TEST(DropoutTest, RanksMicroBatchesAndRecomputationDropTheSame) {
  const std::vector<float> one = Losses({});
  ASSERT_EQ(one.size(), kSteps + 1);
  for (const char* const strategy : {"no_shard", "full_shard"}) {
    for (const int world_size : {1, 2, 4}) {
      EXPECT_EQ(Losses({.world_size = world_size, .strategy = strategy}), one)
          << strategy << " on " << world_size;
    }
  }
  EXPECT_EQ(Losses({.world_size = 2, .checkpointing = ActivationCheckpointing::kBlock}), one);
}

TEST(DropoutTest, StepsAndSeedsDiffer) {
  // Without updates, steps on the same batch differ by their draws alone. Evaluation has none.
  const std::vector<float> one = Losses({.alike = true, .lr = 0});
  const std::vector<float> other = Losses({.seed = 2, .alike = true, .lr = 0});
  EXPECT_NE(one[0], one[1]);
  EXPECT_NE(one[1], one[2]);
  EXPECT_NE(one[0], other[0]);
  EXPECT_EQ(one.back(), other.back());
}

// A step that is repeated to find NaNs drops the same elements as the step itself.
TEST(DropoutTest, AStepIsRepeatedWithItsDraws) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<Trainer> trainer,
        Trainer::Create(world, *device, std::make_unique<Model>(), TrainerOptions()));
    ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(
        [](const Parameter&, int64_t, absl::Span<float> out) -> absl::Status {
          std::fill(out.begin(), out.end(), 3e38f);
          return absl::OkStatus();
        }));
    const std::vector<Batch> batches = {MicroBatch(world.rank())};
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batches, 0.01));
    EXPECT_TRUE(result.skipped);
    ZEROTH_ASSIGN_OR_RETURN(const std::string found, trainer->FindNonFinite(batches));
    EXPECT_THAT(found, testing::HasSubstr("the forward of micro-batch 1"));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth
