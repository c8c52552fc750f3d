// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares training with and without int8 traffic on English text: the same loss, with traffic
// reduced as the blocks predict.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/kernels/quantize/quantize.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/strategies/quantized_collectives.h"

namespace zeroth {
namespace {

constexpr int kRanks = 2;
constexpr int kSteps = 200;
constexpr int64_t kBlock = 256;

struct TextRun {
  std::vector<float> losses;
  double evaluation = 0;  // after the last step, over windows that both runs share
  int64_t bytes = 0;      // of parameters and gradients, sent by rank 0 in all steps
  int64_t predicted_bytes = 0;
};

// Bytes of one step's gathers and reductions on one of two ranks: half of all units in forward and,
// except for the root, again in backward.
int64_t BytesOfAStep(const Sharding& sharding, bool quantized) {
  int64_t bytes = 0;
  for (const Unit* unit : sharding.units()) {
    const int64_t shard = unit->segment_layout(0).shard_numel;
    const int64_t once =
        quantized ? QuantizedBlocks{shard, kBlock}.bytes() : shard * int64_t{sizeof(float)};
    bytes += once * (unit->is_root() ? 2 : 3);
  }
  return bytes;
}

int64_t BytesSent(const Sharding& sharding) {
  int64_t bytes = 0;
  for (const CollectiveOp op :
       {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll}) {
    bytes += sharding.stats().collectives[static_cast<size_t>(op)].bytes;
  }
  return bytes;
}

absl::StatusOr<DataLoader> OpenText(int rank) {
  static const ByteTokenizer tokenizer;
  DataOptions data;
  data.tokenizer = &tokenizer;
  data.vocab_size = tokenizer.vocab_size();
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> tokens,
                          OpenData("LICENSE", data));
  LoaderOptions options;
  options.batch_size = 2;
  options.seq_len = 64;
  options.world_size = kRanks;
  options.rank = rank;
  return DataLoader::Create(tokens, options);
}

absl::StatusOr<TextRun> TrainRank(Communicator& world, bool quantized) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, PresetConfig("gpt2_nano"));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  TrainerOptions options;
  if (quantized) {
    QuantizationOptions quantization;
    quantization.block = kBlock;
    ZEROTH_ASSIGN_OR_RETURN(options.sharding.collectives, QuantizedCollectives(quantization));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  Sharding& sharding = trainer->sharding();
  ZEROTH_RETURN_IF_ERROR(sharding.Initialize(/*seed=*/11));
  ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, OpenText(world.rank()));
  TextRun run;
  for (int step = 0; step < kSteps; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(step));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer->Step(batch, 1e-3 * std::min(1.0, (step + 1) / 20.0)));
    run.losses.push_back(result.loss);
  }
  run.bytes = BytesSent(sharding);
  run.predicted_bytes = kSteps * BytesOfAStep(sharding, quantized);
  constexpr int kEvaluations = 8;
  for (int i = 0; i < kEvaluations; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(kSteps + i));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult evaluated, trainer->Evaluate(batch));
    run.evaluation += static_cast<double>(evaluated.loss) / kEvaluations;
  }
  return run;
}

TextRun Train(bool quantized) {
  std::mutex mutex;
  TextRun run;
  const absl::Status status = RunLocalRanks(kRanks, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(TextRun mine, TrainRank(world, quantized));
    const std::lock_guard<std::mutex> lock(mutex);
    if (world.rank() == 0) run = std::move(mine);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return run;
}

double LastLosses(const TextRun& run) {
  constexpr int kLast = 20;
  return std::accumulate(run.losses.end() - kLast, run.losses.end(), 0.0) / kLast;
}

TEST(QuantizedTrainingTest, ReachesTheSameLossForAQuarterOfTheTraffic) {
  const TextRun plain = Train(/*quantized=*/false);
  const TextRun quantized = Train(/*quantized=*/true);
  ASSERT_EQ(plain.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(quantized.losses.size(), static_cast<size_t>(kSteps));
  // The text is learnt; otherwise the losses would agree whatever is sent.
  EXPECT_LT(LastLosses(plain), 0.5 * static_cast<double>(plain.losses[0]));
  // And int8 was sent.
  EXPECT_NE(plain.losses, quantized.losses);
  EXPECT_NEAR(LastLosses(quantized), LastLosses(plain), 0.01 * LastLosses(plain));
  EXPECT_NEAR(quantized.evaluation, plain.evaluation, 0.01 * plain.evaluation);

  EXPECT_EQ(plain.bytes, plain.predicted_bytes);
  EXPECT_EQ(quantized.bytes, quantized.predicted_bytes);
  const double ratio = static_cast<double>(quantized.bytes) / static_cast<double>(plain.bytes);
  // A byte for each element and a scale of four for each block, against four bytes; what is
  // rounded up at the ends of shards is less than a thousandth.
  EXPECT_NEAR(ratio, (1 + 4.0 / kBlock) / 4, 1e-3);
  RecordProperty("plain_loss", std::to_string(LastLosses(plain)));
  RecordProperty("quantized_loss", std::to_string(LastLosses(quantized)));
  RecordProperty("traffic_ratio", std::to_string(ratio));
}

}  // namespace
}  // namespace zeroth
