// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains and saves whole models of random shapes, with tied and frozen parameters. Other ranks,
// under another strategy, must load them, save the same bytes, and compute the same results.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth {
namespace {

constexpr int kModels = 32;
constexpr int64_t kSeq = 5;
constexpr int64_t kStep = 2;

// Bounds are included.
int64_t Draw(std::mt19937& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
}

// A GPT-2, whose head is its embedding, or a Llama with either kind of head.
nlohmann::json RandomConfig(std::mt19937& random) {
  const int64_t vocabulary = Draw(random, 3, 40);
  const int64_t layers = Draw(random, 1, 3);
  const int64_t heads = Draw(random, 1, 3);
  const int64_t head_dim = 2 * Draw(random, 1, 5);
  if (Draw(random, 0, 1) == 0) {
    return {{"model_type", "gpt2"},       {"vocab_size", vocabulary}, {"n_positions", kSeq},
            {"n_embd", heads * head_dim}, {"n_layer", layers},        {"n_head", heads}};
  }
  return {{"model_type", "llama"},
          {"vocab_size", vocabulary},
          {"max_position_embeddings", kSeq},
          {"hidden_size", heads * head_dim},
          {"intermediate_size", Draw(random, 1, 50)},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", Draw(random, 0, 1) == 0 ? 1 : heads},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", Draw(random, 0, 1) == 0}};
}

// How a model is sharded.
struct Spread {
  int world_size = 1;
  TrainerOptions options;
};

// The types of the state, and the frozen parameters.
struct Model {
  nlohmann::json config;
  std::set<size_t> frozen;  // by place in Module::Parameters
  DType param_dtype = DType::kFloat32;
  DType master_dtype = DType::kFloat32;
  DType moments = DType::kFloat32;
  int64_t min_8bit_numel = 0;
};

Model RandomModel(std::mt19937& random) {
  constexpr std::array kMoments = {DType::kFloat32, DType::kBFloat16, DType::kUInt8};
  Model model;
  model.config = RandomConfig(random);
  for (size_t i = 0; i < 60; ++i) {
    if (Draw(random, 0, 4) == 0) model.frozen.insert(i);
  }
  model.param_dtype = Draw(random, 0, 1) == 0 ? DType::kFloat32 : DType::kBFloat16;
  if (model.param_dtype == DType::kBFloat16 && Draw(random, 0, 1) == 0) {
    model.master_dtype = DType::kBFloat16;
  }
  model.moments = kMoments[static_cast<size_t>(Draw(random, 0, 2))];
  model.min_8bit_numel = Draw(random, 0, 300);
  return model;
}

Spread RandomSpread(const Model& model, std::mt19937& random) {
  constexpr std::array kStrategies = {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard",
                                      "hybrid_shard"};
  constexpr std::array kWorlds = {1, 2, 3, 4, 8};
  Spread spread;
  spread.world_size = kWorlds[static_cast<size_t>(Draw(random, 0, 4))];
  ShardingOptions& sharding = spread.options.sharding;
  sharding.strategy = kStrategies[static_cast<size_t>(Draw(random, 0, 4))];
  if (sharding.strategy == "hybrid_shard") {
    do {
      sharding.strategy_options.shard_size = static_cast<int>(Draw(random, 1, spread.world_size));
    } while (spread.world_size % sharding.strategy_options.shard_size != 0);
  }
  sharding.mixed_precision.param_dtype = model.param_dtype;
  sharding.mixed_precision.master_dtype = model.master_dtype;
  if (Draw(random, 0, 2) == 0) sharding.min_shard_numel = Draw(random, 1, 60);
  if (Draw(random, 0, 3) == 0 && model.moments != DType::kUInt8)
    sharding.layout = LayoutKind::kRows;
  if (Draw(random, 0, 3) == 0) spread.options.wrap = WrapNothing();
  if (Draw(random, 0, 3) == 0) spread.options.wrap = WrapByMinNumel(Draw(random, 1, 500));
  spread.options.optimizer_options.state_dtype = model.moments;
  spread.options.optimizer_options.min_8bit_numel = model.min_8bit_numel;
  return spread;
}

std::string NameOf(const Model& model, const Spread& spread) {
  return absl::StrCat(model.config.dump(), " in ", DTypeName(model.param_dtype), ", ",
                      DTypeName(model.master_dtype), " and ", DTypeName(model.moments), ", ",
                      spread.options.sharding.strategy, " at ", spread.world_size, " ranks");
}

using Rank = std::function<absl::Status(Communicator& world, Trainer& trainer)>;

absl::Status RunRanks(const Model& kind, const Spread& spread, const Rank& run) {
  return testing::RunModel(
      kind.config, spread.world_size, spread.options,
      [&](Trainer& trainer, Device&, int) { return run(trainer.world(), trainer); },
      [&](LanguageModel& model) {
        const std::vector<Parameter*> parameters = model.Parameters();
        for (size_t i = 0; i < parameters.size(); ++i) {
          if (kind.frozen.count(i) > 0) parameters[i]->set_requires_grad(false);
        }
      });
}

Batch BatchOf(int64_t vocabulary, int rank, int64_t step) {
  Batch batch;
  batch.batch = 1;
  batch.seq = kSeq;
  for (int64_t i = 0; i < kSeq; ++i) {
    batch.inputs.push_back(static_cast<int32_t>((3 * i + rank + step) % vocabulary));
    batch.targets.push_back(static_cast<int32_t>((5 * i + rank + step) % vocabulary));
  }
  return batch;
}

absl::Status Save(Communicator& world, Trainer& trainer, const std::string& directory) {
  CheckpointSaverOptions options;
  options.directory = directory;
  options.async = world.size() % 2 == 0;
  ZEROTH_ASSIGN_OR_RETURN(const auto saver,
                          CheckpointSaver::Create(world, trainer.device(), options));
  ZEROTH_RETURN_IF_ERROR(saver
                             ->Save(kStep, nlohmann::json::object(),
                                    OwnedPieces(trainer.sharding(), *trainer.states()))
                             .status());
  return saver->Wait();
}

absl::StatusOr<std::vector<float>> LogitsOf(Trainer& trainer) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor logits, trainer.Logits({0, 2, 1, 2, 0}, /*from=*/0));
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  return logits.ToHost<float>();
}

// Rank 0's logits.
absl::StatusOr<std::vector<float>> TrainAndSave(const Model& model, const Spread& spread,
                                                const std::string& directory) {
  std::vector<float> logits;
  const absl::Status status =
      RunRanks(model, spread, [&](Communicator& world, Trainer& trainer) -> absl::Status {
        for (int64_t step = 0; step < kStep; ++step) {
          const Batch batch = BatchOf(trainer.model().vocab_size(), world.rank(), step);
          ZEROTH_RETURN_IF_ERROR(trainer.Step(batch, 1e-2).status());
        }
        ZEROTH_ASSIGN_OR_RETURN(std::vector<float> mine, LogitsOf(trainer));
        if (world.rank() == 0) logits = std::move(mine);
        return Save(world, trainer, directory);
      });
  if (!status.ok()) return status;
  return logits;
}

absl::Status LoadAndSave(const Model& model, const Spread& spread, const std::string& from,
                         const std::string& to, const std::vector<float>& logits) {
  return RunRanks(model, spread, [&](Communicator& world, Trainer& trainer) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(CheckpointPath(from, kStep)));
    ZEROTH_RETURN_IF_ERROR(LoadState(*reader, trainer.sharding(), *trainer.states()).status());
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mine, LogitsOf(trainer));
    EXPECT_EQ(mine, logits);
    return Save(world, trainer, to);
  });
}

// The bytes of every state of every parameter, in full, by "parameter/state".
std::map<std::string, std::vector<uint8_t>> Contents(const std::string& directory) {
  std::map<std::string, std::vector<uint8_t>> contents;
  const auto reader = CheckpointReader::Open(CheckpointPath(directory, kStep));
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return contents;
  for (const auto& [name, parameter] : (*reader)->index().parameters) {
    for (const auto& [state, tensor] : parameter.states) {
      std::vector<uint8_t>& bytes = contents[absl::StrCat(name, "/", state)];
      const auto size = SafetensorsBytes(tensor.dtype, {parameter.NumelOf(tensor)});
      EXPECT_TRUE(size.ok()) << size.status();
      bytes.resize(static_cast<size_t>(size.value_or(0)));
      const absl::Status status = (*reader)->ReadBytes(name, state, 0, absl::MakeSpan(bytes));
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  return contents;
}

TEST(SavedModelsTest, HaveTheSameBytesWhoeverHoldsThem) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  int tied = 0;
  for (int i = 0; i < kModels; ++i) {
    const Model model = RandomModel(random);
    const Spread first = RandomSpread(model, random);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", model ", i, ": ", NameOf(model, first)));
    const TemporaryDirectory dir;
    const auto logits = TrainAndSave(model, first, dir.File("first"));
    ASSERT_TRUE(logits.ok()) << logits.status();
    const auto contents = Contents(dir.File("first"));

    const bool is_tied = model.config.value("tie_word_embeddings", true);
    EXPECT_EQ(contents.count("lm_head.weight/param"), is_tied ? 0u : 1u);
    tied += is_tied ? 1 : 0;

    std::string before = "first";
    for (int hop = 0; hop < 2; ++hop) {
      const Spread next = RandomSpread(model, random);
      SCOPED_TRACE(NameOf(model, next));
      const std::string after = absl::StrCat("hop", hop);
      ASSERT_EQ(LoadAndSave(model, next, dir.File(before), dir.File(after), *logits),
                absl::OkStatus());
      EXPECT_TRUE(Contents(dir.File(after)) == contents);
      before = after;
    }
  }
  EXPECT_GT(tied, 0);
}

}  // namespace
}  // namespace zeroth
