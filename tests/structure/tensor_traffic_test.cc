// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the traffic of tensor ranks in a step, from the communicators' records, with the table
// of docs/parallelism.md. Also tests the memory that they save, and that their logits agree.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/rank.h"
#include "zeroth/api/sharded_module.h"
#include "zeroth/api/training_step.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/nn/key_value_cache.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/shard_module.h"
#include "zeroth/nn/tape.h"
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/optim/muon.h"
#include "zeroth/tests/structure/small_gpt2.h"

namespace zeroth::testing {
namespace {

constexpr int64_t kRows = 8;  // of a micro-batch
constexpr int64_t kActivationBytes = kRows * kWidth * 4;

struct Sent {
  int64_t calls = 0;
  int64_t bytes = 0;  // of full buffers, as the group of two sends them: see CollectiveBytes
  bool operator==(const Sent&) const = default;
  friend void PrintTo(const Sent& traffic, std::ostream* out) {
    *out << traffic.calls << " calls, " << traffic.bytes << " bytes";
  }
};
using ByOp = std::map<CollectiveOp, Sent>;

TrainerOptions Divided(bool sequence) {
  TrainerOptions options = OptionsOf("full_shard");
  options.tensor.size = 2;
  options.tensor.sequence = sequence;
  return options;
}

// Bytes that rank 0 sends to its tensor ranks in the second step. Traffic of sharding goes through
// other groups, and is not counted.
ByOp SentInAStep(const nlohmann::json& config, bool sequence, int64_t* activation_peak = nullptr) {
  ByOp sent;
  const absl::Status status = RunModel(
      config, 4, Divided(sequence),
      [&](Trainer& trainer, Device& device, int rank) -> absl::Status {
        const int data_rank = rank / 2;
        ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(data_rank, 0, 1), 1e-2).status());
        Mesh& mesh = trainer.sharding().mesh();
        ZEROTH_ASSIGN_OR_RETURN(const Mesh::Axes axes, mesh.Find({kTensorAxis}));
        ZEROTH_ASSIGN_OR_RETURN(Communicator* const group, mesh.Group(axes, Traffic::kActivations));
        group->stats().EnableRecord(true);
        device.allocator().ResetPeaks();
        ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(data_rank, 1, 1), 1e-2).status());
        if (rank != 0) return absl::OkStatus();
        for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
          ++sent[entry.op].calls;
          sent[entry.op].bytes += entry.bytes;
        }
        if (activation_peak == nullptr) return absl::OkStatus();
        *activation_peak = device.allocator().stats()[MemoryCategory::kActivations].peak_bytes;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return sent;
}

// With two ranks, an all-reduce sends the buffer once, and a gather or a reduce-scatter half of it.
constexpr int64_t kLossBytes = 2 * kRows * 3 * 4 / 2;  // three numbers a token and rank, gathered

// A model with the small GPT-2's width, depth and vocabulary, and Llama's blocks.
nlohmann::json LlamaLike(const char* model_type) {
  return {{"model_type", model_type},
          {"vocab_size", kVocabulary},
          {"max_position_embeddings", kPositions},
          {"hidden_size", kWidth},
          {"intermediate_size", 2 * kWidth},
          {"num_hidden_layers", kBlocks},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false}};
}

// Traffic of any dense model whose norms have `norms` replicated vectors.
ByOp DenseTraffic(bool sequence, int64_t norms) {
  constexpr int64_t kSums = 4 * kBlocks + 2;
  if (!sequence) {
    return {{CollectiveOp::kAllReduce, {kSums, kSums * kActivationBytes}},
            {CollectiveOp::kAllGather, {1, kLossBytes}}};
  }
  return {{CollectiveOp::kAllReduce, {norms, norms * kWidth * 4}},
          {CollectiveOp::kReduceScatter, {kSums, kSums * kActivationBytes / 2}},
          {CollectiveOp::kAllGather,
           {6 * kBlocks + 3, (6 * kBlocks + 2) * kActivationBytes / 2 + kLossBytes}}};
}

TEST(TensorTrafficTest, AStepSendsWhatTheTableSays) {
  int64_t plain_peak = 0;
  EXPECT_EQ(SentInAStep(SmallGpt2Config(), /*sequence=*/false, &plain_peak),
            DenseTraffic(false, 0));
  int64_t sequence_peak = 0;
  EXPECT_EQ(SentInAStep(SmallGpt2Config(), /*sequence=*/true, &sequence_peak),
            DenseTraffic(true, 2 * (2 * kBlocks + 1)));  // each norm has a weight and a bias
  EXPECT_LT(sequence_peak, plain_peak);
}

TEST(TensorTrafficTest, LlamaSendsTheSameWithHalfOfTheNormsVectors) {
  const nlohmann::json llama = LlamaLike("llama");
  EXPECT_EQ(SentInAStep(llama, /*sequence=*/false), DenseTraffic(false, 0));
  EXPECT_EQ(SentInAStep(llama, /*sequence=*/true), DenseTraffic(true, 2 * kBlocks + 1));
}

// OLMo 2's norms of queries and keys span all heads, which are divided: a sum of squares for each
// token and norm in forward, and a dot product for each in backward.
TEST(TensorTrafficTest, NormsOverAllHeadsAddOneNumberATokenFourTimesABlock) {
  for (const bool sequence : {false, true}) {
    ByOp expected = DenseTraffic(sequence, 2 * kBlocks + 1);
    expected[CollectiveOp::kAllReduce].calls += 4 * kBlocks;
    expected[CollectiveOp::kAllReduce].bytes += 4 * kBlocks * kRows * 4;
    EXPECT_EQ(SentInAStep(LlamaLike("olmo2"), sequence), expected) << "sequence " << sequence;
  }
}

TEST(TensorTrafficTest, ExpertsAddTheGradientOfTheirTokensWeights) {
  constexpr int64_t kExpertsOfAToken = 2;
  constexpr int64_t kHeadDim = 32;
  nlohmann::json config = LlamaLike("qwen3_moe");
  config.update({{"head_dim", kHeadDim},
                 {"num_experts", 4},
                 {"num_experts_per_tok", kExpertsOfAToken},
                 {"moe_intermediate_size", kWidth},
                 {"norm_topk_prob", true},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", nlohmann::json::array()}});
  for (const bool sequence : {false, true}) {
    ByOp expected = DenseTraffic(sequence, 2 * kBlocks + 1);
    Sent& sums = expected[CollectiveOp::kAllReduce];
    sums.calls += kBlocks;
    sums.bytes += kBlocks * kRows * kExpertsOfAToken * 4;
    // Qwen3's norms of heads are replicated, and each rank has the gradient of its heads.
    sums.calls += 2 * kBlocks;
    sums.bytes += 2 * kBlocks * kHeadDim * 4;
    if (sequence) {  // the router keeps its gathered input
      expected[CollectiveOp::kAllGather].calls -= kBlocks;
      expected[CollectiveOp::kAllGather].bytes -= kBlocks * kActivationBytes / 2;
    }
    EXPECT_EQ(SentInAStep(config, sequence), expected) << "sequence " << sequence;
  }
}

constexpr int64_t kLinear = kBlocks - 1;  // the last block has Qwen3's attention
constexpr int64_t kHeadDim = 32;
constexpr int64_t kValueDim = 8;

nlohmann::json LinearAttention() {
  nlohmann::json config = LlamaLike("qwen3_5_text");
  config.update({{"head_dim", kHeadDim},
                 {"full_attention_interval", kBlocks},
                 {"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 6},
                 {"linear_value_head_dim", kValueDim}});
  return config;
}

// Three layers of linear attention read its input, where attention has one.
TEST(TensorTrafficTest, LinearAttentionSumsThreeGradientsOfItsInput) {
  const nlohmann::json config = LinearAttention();
  for (const bool sequence : {false, true}) {
    ByOp expected = DenseTraffic(sequence, 2 * kBlocks + 1);
    Sent& sums = expected[CollectiveOp::kAllReduce];
    // Norms of heads are replicated, and each rank has the gradient of its heads.
    sums.calls += kLinear + 2;
    sums.bytes += (kLinear * kValueDim + 2 * kHeadDim) * 4;
    if (!sequence) {
      sums.calls += 2 * kLinear;
      sums.bytes += 2 * kLinear * kActivationBytes;
    } else {
      expected[CollectiveOp::kReduceScatter].calls += 2 * kLinear;
      expected[CollectiveOp::kReduceScatter].bytes += 2 * kLinear * kActivationBytes / 2;
      expected[CollectiveOp::kAllGather].calls += 4 * kLinear;
      expected[CollectiveOp::kAllGather].bytes += 4 * kLinear * kActivationBytes / 2;
    }
    EXPECT_EQ(SentInAStep(config, sequence), expected) << "sequence " << sequence;
  }
}

// Norms and the biases of row-parallel layers are replicated. All other parameters of a block are
// divided among ranks, and ParameterCount counts each once.
TEST(TensorTrafficTest, ARankHoldsItsParts) {
  const absl::Status status =
      RunSmallGpt2(2, Divided(false), [](Trainer& trainer, Device&, int) -> absl::Status {
        int64_t here = 0;
        for (const Parameter* parameter : trainer.model().Parameters()) here += parameter->numel();
        // Half of a block's matrices and of the biases of outputs; whole norms and other biases.
        const int64_t block = 6 * kWidth * kWidth + (7 * kWidth) / 2 + 6 * kWidth;
        EXPECT_EQ(here, kBlocks * block + (kVocabulary / 2 + kPositions + 2) * kWidth);
        EXPECT_EQ(trainer.model().ParameterCount(), kNumel);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TensorTrafficTest, LogitsAreThoseOfTheWholeModel) {
  std::mutex mutex;
  std::map<int, std::vector<std::vector<float>>> logits;  // by tensor ranks, of each rank
  for (const int size : {1, 2}) {
    TrainerOptions options = OptionsOf("full_shard");
    options.tensor.size = size;
    options.tensor.sequence = size > 1;  // which logits of one token must not mind
    const absl::Status status =
        RunSmallGpt2(2, options, [&](Trainer& trainer, Device&, int) -> absl::Status {
          ZEROTH_ASSIGN_OR_RETURN(const Tensor values,
                                  trainer.Logits(std::vector<int32_t>{3, 1, 60, 31, 32}, 3));
          EXPECT_EQ(values.shape(), Shape({1, 2, kVocabulary}));
          ZEROTH_ASSIGN_OR_RETURN(std::vector<float> mine, values.ToHost<float>());
          const std::lock_guard<std::mutex> lock(mutex);
          logits[size].push_back(std::move(mine));
          return trainer.sharding().scheduler().EndStep();
        });
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(logits[2][0], logits[2][1]);
  EXPECT_THAT(logits[2][0], ::testing::Pointwise(::testing::FloatNear(1e-5f), logits[1][0]));
}

// Each rank caches the keys, values and states of its heads.
TEST(TensorTrafficTest, CachedLogitsAreThoseOfTheWholeModel) {
  const std::vector<int32_t> tokens = {3, 1, 60, 31, 32, 5};
  std::mutex mutex;
  std::map<int, std::vector<float>> logits;  // by tensor ranks
  for (const int size : {1, 2}) {
    TrainerOptions options = OptionsOf("full_shard");
    options.tensor.size = size;
    const std::vector<size_t> pieces =
        size == 1 ? std::vector<size_t>{6} : std::vector<size_t>{2, 3, 1};
    const absl::Status status = RunModel(
        LinearAttention(), 2, options, [&](Trainer& trainer, Device&, int rank) -> absl::Status {
          KeyValueCache cache(6);
          std::vector<float> all;
          for (const size_t count : pieces) {
            const auto piece =
                absl::MakeConstSpan(tokens).subspan(static_cast<size_t>(cache.size()), count);
            ZEROTH_ASSIGN_OR_RETURN(const Tensor values,
                                    trainer.Logits(piece, 0, size == 1 ? nullptr : &cache));
            ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mine, values.ToHost<float>());
            all.insert(all.end(), mine.begin(), mine.end());
          }
          const std::lock_guard<std::mutex> lock(mutex);
          if (rank == 0) logits[size] = std::move(all);
          return trainer.sharding().scheduler().EndStep();
        });
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(logits[2], ::testing::Pointwise(::testing::FloatNear(1e-5f), logits[1]));
}

// Runs a sample or an evaluation between a forward and its backward, which reads what its own
// forward recorded about the rows.
TEST(TensorTrafficTest, ForwardsBetweenForwardAndBackwardChangeNoGradient) {
  for (const auto what : {ActivationCheckpointing::kNone, ActivationCheckpointing::kBlock}) {
    std::map<bool, std::vector<float>> norm_and_scale;  // of rank 0
    for (const bool between : {false, true}) {
      RunOptions run;
      run.launch.world_size = 2;
      const absl::Status status = RunRanks(run, [&](Rank& rank) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                                ModelRegistry::Create(SmallGpt2Config()));
        const TensorParallelOptions tensor{.size = 2, .sequence = true};
        ZEROTH_RETURN_IF_ERROR(DivideModel(*model, tensor, rank.index()));
        SetActivationCheckpointing(*model, what);
        ZEROTH_ASSIGN_OR_RETURN(
            const std::unique_ptr<ShardedModule> sharded,
            ShardedModule::Create(rank, PlanUnits(*model, WrapBlocks()), {}, tensor));
        ZEROTH_RETURN_IF_ERROR(sharded->sharding().Initialize(/*seed=*/0));
        ZEROTH_ASSIGN_OR_RETURN(
            const Tensor tokens,
            Tensor::FromHost<int32_t>(rank.device(), Shape({1, 4}), {3, 1, 60, 31},
                                      MemoryCategory::kActivations));
        TrainingStep step(*sharded);
        ZEROTH_ASSIGN_OR_RETURN(const Value loss, model->Loss(step.context(), tokens, tokens));
        if (between) {
          ZEROTH_RETURN_IF_ERROR(model->Logits(step.context(), tokens, 0, nullptr).status());
          const NoGradient off(step.context().tape());
          ZEROTH_RETURN_IF_ERROR(model->Loss(step.context(), tokens, tokens).status());
        }
        ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor norm, step.GradNormAndScale(1));
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, norm.ToHost<float>());
        if (rank.index() == 0) norm_and_scale[between] = values;
        return step.EndStep();
      });
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(norm_and_scale[false], norm_and_scale[true]);
  }
}

TEST(TensorTrafficTest, EachOfMuonsMatricesIsComputedByOneRankOfAll) {
  for (const char* strategy : {"no_shard", "full_shard"}) {
    std::mutex mutex;
    std::map<std::string, int> computed;  // how often in a step
    size_t most = 0;
    TrainerOptions options = Divided(false);
    options.sharding.strategy = strategy;
    options.optimizer = "muon";
    const absl::Status status =
        RunSmallGpt2(4, options, [&](Trainer& trainer, Device&, int) -> absl::Status {
          const auto* muon = dynamic_cast<const Muon*>(&trainer.optimizer());
          if (muon == nullptr) return absl::InternalError("the optimizer is not Muon");
          const std::vector<std::string> own = muon->own_matrices();
          const std::lock_guard<std::mutex> lock(mutex);
          most = std::max(most, own.size());
          for (const std::string& name : own) ++computed[name];
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(computed.size(), static_cast<size_t>(4 * kBlocks)) << strategy;
    for (const auto& [name, times] : computed) EXPECT_EQ(times, 1) << strategy << " " << name;
    EXPECT_LT(most, computed.size()) << strategy;
  }
}

// docs/optimizers.md: all-to-alls over the ranks that share a matrix, and a broadcast of each
// matrix between copies of these ranks. Two data ranks with two tensor ranks each.
TEST(TensorTrafficTest, MuonExchangesWhatTheTableSays) {
  constexpr int64_t kMatrixBytes = kBlocks * 12 * kWidth * kWidth * 4;
  for (const char* strategy : {"no_shard", "full_shard"}) {
    SCOPED_TRACE(strategy);
    std::mutex mutex;
    std::vector<ByOp> ranks;
    std::map<std::string, int64_t> bytes;  // of all ranks, by what they are for
    size_t rounds = 0;
    TrainerOptions options = Divided(false);
    options.sharding.strategy = strategy;
    options.optimizer = "muon";
    const absl::Status status =
        RunSmallGpt2(4, options, [&](Trainer& trainer, Device&, int rank) -> absl::Status {
          const std::vector<Communicator*> groups = trainer.sharding().communicators();
          for (Communicator* group : groups) group->stats().EnableRecord(true);
          ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(rank / 2, 0, 1), 1e-2).status());
          const std::lock_guard<std::mutex> lock(mutex);
          rounds = std::max(rounds,
                            dynamic_cast<const Muon&>(trainer.optimizer()).own_matrices().size());
          ByOp sent;
          for (Communicator* group : groups) {
            for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
              if (!absl::StartsWith(entry.label, "muon ")) continue;
              ++sent[entry.op].calls;
              sent[entry.op].bytes += entry.bytes;
              bytes[entry.label.substr(entry.label.rfind(' ') + 1)] += entry.bytes;
            }
          }
          ranks.push_back(std::move(sent));
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    const bool is_copied = std::string(strategy) == "no_shard";
    for (const ByOp& sent : ranks) {
      EXPECT_EQ(sent.at(CollectiveOp::kAllToAll).calls, 2 * static_cast<int64_t>(rounds));
      EXPECT_EQ(sent.size(), is_copied ? 2u : 1u);
    }
    EXPECT_EQ(bytes["in"], bytes["out"]) << "what comes in goes out";
    EXPECT_LT(bytes["in"], kMatrixBytes) << "what a rank has of its own matrices stays";
    if (!is_copied) continue;
    // One rank, which has half of a matrix, updates it; each half of the result goes from a rank of
    // one copy to that of the other, and both count it.
    EXPECT_EQ(bytes["in"], kMatrixBytes / 2);
    EXPECT_EQ(bytes["copy"], 2 * kMatrixBytes);
  }
}

TEST(TensorTrafficTest, WhatCannotBeDividedIsSaid) {
  const auto expect_error = [](int world_size, const TrainerOptions& options,
                               const std::string& words) {
    const absl::Status status =
        RunSmallGpt2(world_size, options, [](Trainer&, Device&, int) { return absl::OkStatus(); });
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  expect_error(3, Divided(false), "2 tensor ranks do not divide the 3 of the world");
  TrainerOptions eight = Divided(false);
  eight.tensor.size = 8;
  expect_error(8, eight, "2 heads cannot be divided among 8 tensor ranks");
  TrainerOptions three = Divided(false);
  three.tensor.deterministic = 3;
  expect_error(2, three, "expected a power of two that the ranks divide");
  TrainerOptions both = Divided(true);
  both.tensor.deterministic = 2;
  expect_error(2, both, "leave one of them out");
}

}  // namespace
}  // namespace zeroth::testing
