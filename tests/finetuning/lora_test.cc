// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests whole models with LoRA adapters: compared with full fine-tuning, across strategies, their
// memory and traffic, and as other programs read them.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/tests/finetuning/tiny_run.h"
#include "zeroth/tools/model/open_model.h"
#include "zeroth/train/export.h"

namespace zeroth::testing {
namespace {

constexpr int64_t kRank = 3;
constexpr double kAlpha = 5;
constexpr double kDropout = 0.25;

TinySetup Adapted(const std::string& model, std::vector<std::string> targets = {}) {
  TinySetup setup;
  setup.model = model;
  setup.model_options.lora.rank = kRank;
  setup.model_options.lora.alpha = kAlpha;
  setup.model_options.lora.targets = std::move(targets);
  return setup;
}

// With modules that are trained in full: the embedding, the head, whether tied or not, and a norm.
TinySetup AdaptedAndSaved(const std::string& model) {
  TinySetup setup = Adapted(model);
  std::vector<std::string> modules = {"embed_tokens", "model.norm"};
  if (model == "gpt2_tiny") modules = {"wte", "ln_f"};
  const bool is_tied = model == "gpt2_tiny" || model == "qwen2_tiny";
  if (!is_tied) modules.push_back("lm_head");
  setup.model_options.lora.modules_to_save = std::move(modules);
  return setup;
}

bool IsSaved(absl::string_view name) {
  for (const char* module : {"wte.", "ln_f.", "embed_tokens.", "model.norm.", "lm_head."}) {
    if (absl::StrContains(name, module)) return true;
  }
  return false;
}

bool HasExperts(absl::string_view model) { return model == "qwen3_moe_tiny"; }

bool IsAdapter(absl::string_view name) {
  return absl::EndsWith(name, ".lora_A") || absl::EndsWith(name, ".lora_B");
}

// Row-major [rows, cols].
struct Grid {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;

  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * cols + j)]; }
};

Grid GridOf(const std::vector<float>& values, int64_t rows) {
  return {rows, static_cast<int64_t>(values.size()) / rows, {values.begin(), values.end()}};
}

Grid Transposed(const Grid& a) {
  Grid t{a.cols, a.rows, {}};
  for (int64_t j = 0; j < a.cols; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) t.values.push_back(a.at(i, j));
  }
  return t;
}

// factor * a b.
Grid Matmul(const Grid& a, const Grid& b, double factor) {
  Grid c{a.rows, b.cols, {}};
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.cols; ++k) sum += a.at(i, k) * b.at(k, j);
      c.values.push_back(factor * sum);
    }
  }
  return c;
}

void ExpectNear(const std::vector<float>& actual, const Grid& expected, double tolerance,
                const std::string& name) {
  ASSERT_EQ(actual.size(), expected.values.size()) << name;
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += std::pow(static_cast<double>(actual[i]) - expected.values[i], 2);
    size += std::pow(expected.values[i], 2);
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(size)) << name;
}

struct Gradients {
  NamedValues weights;
  NamedValues gradients;
};

absl::StatusOr<Gradients> FirstGradients(const TinySetup& setup, const NamedValues* weights) {
  Collector values;
  Collector gradients;
  const absl::Status run = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    Sharding& sharding = rank.trainer.sharding();
    if (weights != nullptr) {
      ZEROTH_RETURN_IF_ERROR(
          sharding.Load([&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
            std::copy_n(weights->at(parameter.name()).begin() + begin, out.size(), out.begin());
            return absl::OkStatus();
          }));
    }
    ZEROTH_RETURN_IF_ERROR(values.PutWeights(sharding));
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, rank.loader.Load(0));
    ZEROTH_RETURN_IF_ERROR(rank.trainer.ForwardBackward(batch).status());
    ZEROTH_RETURN_IF_ERROR(gradients.PutGradients(sharding));
    return sharding.scheduler().EndStep();
  });
  ZEROTH_RETURN_IF_ERROR(run);
  return Gradients{values.values(), gradients.values()};
}

class LoraModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string model() const { return GetParam(); }
  // GPT-2's weights are [in, out], Llama's [out, in].
  bool in_out() const { return model() == "gpt2_tiny"; }
  size_t blocks() const { return in_out() || model() == "llama_tiny" ? 3 : 2; }
  bool has_experts() const { return HasExperts(model()); }
  // Adapters of experts have no dropout.
  void AddDropout(TinySetup& setup) const {
    setup.model_options.lora.dropout = kDropout;
    setup.model_options.lora.experts = false;
  }
};

// The chain rule through W + s A B: dA = s dW B^T and dB = s A^T dW, dW being the plain model's
// gradient at the merged weights. Modules that are trained in full have the plain model's gradient.
TEST_P(LoraModelTest, GradientsFollowFromTheMergedModelByTheChainRule) {
  const absl::StatusOr<Gradients> adapted = FirstGradients(AdaptedAndSaved(model()), nullptr);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  const double scale = kAlpha / static_cast<double>(kRank);
  NamedValues merged;
  for (const auto& [name, values] : adapted->weights) {
    if (!IsAdapter(name)) merged[name] = values;
  }
  std::map<std::string, std::pair<Grid, Grid>> factors;  // A [in, rank] and B [rank, out]
  for (auto& [name, values] : merged) {
    const std::string base = name.substr(0, name.rfind('.'));
    if (adapted->weights.count(base + ".lora_A") == 0 || absl::EndsWith(name, ".bias")) continue;
    const std::vector<float>& a = adapted->weights.at(base + ".lora_A");
    const std::vector<float>& b = adapted->weights.at(base + ".lora_B");
    const int64_t in = static_cast<int64_t>(a.size()) / kRank;
    const int64_t out = static_cast<int64_t>(b.size()) / kRank;
    auto& pair = factors[base];
    pair.first = in_out() ? GridOf(a, in) : Transposed(GridOf(a, kRank));
    pair.second = in_out() ? GridOf(b, kRank) : Transposed(GridOf(b, out));
    const Grid product = Matmul(pair.first, pair.second, scale);
    const Grid stored = in_out() ? product : Transposed(product);
    for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(stored.values[i]);
  }
  const size_t of_block = has_experts() ? 4 + 8 * 3 : 7;
  ASSERT_EQ(factors.size(), blocks() * (in_out() ? 4 : of_block));
  TinySetup plain;
  plain.model = model();
  const absl::StatusOr<Gradients> full = FirstGradients(plain, &merged);
  ASSERT_TRUE(full.ok()) << full.status();
  size_t saved = 0;
  for (const auto& [name, gradient] : full->gradients) {
    if (!IsSaved(name)) continue;
    ++saved;
    ASSERT_EQ(adapted->gradients.count(name), 1u) << name;
    ExpectNear(adapted->gradients.at(name), GridOf(gradient, 1), 2e-5, name);
  }
  EXPECT_GE(saved, 2u);
  EXPECT_EQ(adapted->gradients.size(), saved + 2 * factors.size());
  for (const auto& [base, pair] : factors) {
    const std::vector<float>& stored = full->gradients.at(base + ".weight");
    const auto& [a, b] = pair;
    const Grid dw = in_out() ? GridOf(stored, a.rows) : Transposed(GridOf(stored, b.cols));
    const Grid da = Matmul(dw, Transposed(b), scale);
    const Grid db = Matmul(Transposed(a), dw, scale);
    ExpectNear(adapted->gradients.at(base + ".lora_A"), in_out() ? da : Transposed(da), 2e-5,
               base + ".lora_A");
    ExpectNear(adapted->gradients.at(base + ".lora_B"), in_out() ? db : Transposed(db), 2e-5,
               base + ".lora_B");
  }
}

struct Trained {
  std::vector<float> losses;
  std::vector<double> norms;
  NamedValues weights;
  bool operator==(const Trained&) const = default;
};

constexpr int64_t kSteps = 4;

absl::StatusOr<Trained> TrainAdapters(const TinySetup& setup) {
  Trained trained;
  Collector weights;
  const absl::Status run = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    for (int64_t step = 0; step < kSteps; ++step) {
      ZEROTH_ASSIGN_OR_RETURN(const StepResult result, rank.Step(/*step=*/0, /*lr=*/1e-2));
      if (rank.trainer.world().rank() != 0) continue;
      trained.losses.push_back(result.loss);
      trained.norms.push_back(result.grad_norm);
    }
    return weights.PutWeights(rank.trainer.sharding());
  });
  ZEROTH_RETURN_IF_ERROR(run);
  trained.weights = weights.values();
  return trained;
}

TEST_P(LoraModelTest, StrategiesGiveTheSameBitsAndTouchNothingFrozen) {
  const absl::StatusOr<NamedValues> file = TinyWeights(model());
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<int, Trained> first;
  for (const TinyRanks& ranks : AllTinyRanks()) {
    TinySetup setup = Adapted(model());
    setup.ranks = ranks;
    const absl::StatusOr<Trained> trained = TrainAdapters(setup);
    ASSERT_TRUE(trained.ok()) << trained.status();
    ASSERT_EQ(trained->losses.size(), static_cast<size_t>(kSteps));
    const auto [expected, is_first] = first.emplace(ranks.world_size, *trained);
    EXPECT_TRUE(*trained == expected->second) << ranks.ToString();
    if (!is_first) continue;
    // One batch again and again is learned.
    EXPECT_LT(trained->losses.back(), trained->losses.front() - 0.01f) << ranks.ToString();
    for (const auto& [name, values] : trained->weights) {
      if (IsAdapter(name)) continue;
      EXPECT_EQ(values, file->at(name)) << name;
    }
  }
}

TEST_P(LoraModelTest, StrategiesGiveTheSameBitsIn16BitsToo) {
  for (const auto& [dtype, dora] :
       {std::pair(DType::kBFloat16, false), std::pair(DType::kFloat16, false),
        std::pair(DType::kBFloat16, true), std::pair(DType::kFloat16, true)}) {
    std::unique_ptr<Trained> first;
    for (const TinyRanks& ranks : AllTinyRanks()) {
      if (ranks.world_size != 2) continue;
      TinySetup setup = Adapted(model());
      setup.model_options.lora.dora = dora;
      setup.model_options.lora.experts = !dora;
      setup.ranks = ranks;
      setup.trainer.sharding.mixed_precision = {dtype, dtype};
      const absl::StatusOr<Trained> trained = TrainAdapters(setup);
      ASSERT_TRUE(trained.ok()) << trained.status();
      if (first == nullptr) {
        first = std::make_unique<Trained>(*trained);
        EXPECT_LT(trained->losses.back(), trained->losses.front() - 0.01f);
      }
      EXPECT_TRUE(*trained == *first)
          << ranks.ToString() << " " << DTypeName(dtype) << (dora ? " DoRA" : "");
    }
  }
}

// A and B of an adapter are thin matrices of blocks.
TEST_P(LoraModelTest, MuonTrainsThemWithTheSameBits) {
  const absl::StatusOr<NamedValues> file = TinyWeights(model());
  ASSERT_TRUE(file.ok()) << file.status();
  std::unique_ptr<Trained> first;
  for (const TinyRanks& ranks : AllTinyRanks()) {
    if (ranks.world_size != 2) continue;
    TinySetup setup = Adapted(model());
    setup.ranks = ranks;
    setup.trainer.optimizer = "muon";
    const absl::StatusOr<Trained> trained = TrainAdapters(setup);
    ASSERT_TRUE(trained.ok()) << trained.status();
    if (first == nullptr) first = std::make_unique<Trained>(*trained);
    EXPECT_TRUE(*trained == *first) << ranks.ToString();
  }
  EXPECT_LT(first->losses.back(), first->losses.front() - 0.01f);
  for (const auto& [name, values] : first->weights) {
    if (!IsAdapter(name)) {
      EXPECT_EQ(values, file->at(name)) << name;
    }
  }
}

// What is dropped depends on the sample and the step alone.
TEST_P(LoraModelTest, StrategiesGiveTheSameBitsWithDropoutAndSavedModules) {
  TinySetup without = AdaptedAndSaved(model());
  without.ranks = {"no_shard", 2, 0};
  without.model_options.lora.experts = false;
  const absl::StatusOr<Trained> undropped = TrainAdapters(without);
  ASSERT_TRUE(undropped.ok()) << undropped.status();
  std::unique_ptr<Trained> first;
  for (const TinyRanks& ranks : AllTinyRanks()) {
    if (ranks.world_size != 2) continue;
    TinySetup setup = AdaptedAndSaved(model());
    setup.ranks = ranks;
    AddDropout(setup);
    const absl::StatusOr<Trained> trained = TrainAdapters(setup);
    ASSERT_TRUE(trained.ok()) << trained.status();
    if (first == nullptr) first = std::make_unique<Trained>(*trained);
    EXPECT_TRUE(*trained == *first) << ranks.ToString();
  }
  EXPECT_NE(first->losses.front(), undropped->losses.front());
  const absl::StatusOr<NamedValues> file = TinyWeights(model());
  ASSERT_TRUE(file.ok()) << file.status();
  for (const auto& [name, values] : *file) {
    EXPECT_EQ(first->weights.at(name) != values, IsSaved(name)) << name;
  }
}

// Two data ranks of `size` tensor ranks each.
TinySetup Divided(const std::string& model, const char* strategy, TensorParallelOptions tensor) {
  TinySetup setup = AdaptedAndSaved(model);
  if (!HasExperts(model)) setup.model_options.lora.dropout = kDropout;
  setup.ranks = {strategy, 2 * tensor.size, 0};
  setup.trainer.tensor = tensor;
  return setup;
}

void ExpectNear(const NamedValues& actual, const NamedValues& expected, double tolerance) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_EQ(actual.count(name), 1u) << name;
    ExpectNear(actual.at(name), GridOf(values, 1), tolerance, name);
  }
}

// Adapters of layers that are divided by outputs, sections of fused ones included, and by depth.
TEST(LoraTensorTest, GradientsAndStepsAreThoseOfUndividedLayers) {
  for (const char* model : {"gpt2_tiny", "llama_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"}) {
    const TinySetup whole = Divided(model, "no_shard", {});
    const absl::StatusOr<Gradients> expected = FirstGradients(whole, nullptr);
    const absl::StatusOr<Trained> trained = TrainAdapters(whole);
    ASSERT_TRUE(expected.ok() && trained.ok()) << expected.status() << trained.status();
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(absl::StrCat(model, sequence ? " with shared rows" : ""));
      TinySetup divided = Divided(model, "full_shard", {2, 0, sequence});
      const absl::StatusOr<Gradients> found = FirstGradients(divided, nullptr);
      ASSERT_TRUE(found.ok()) << found.status();
      ExpectNear(found->gradients, expected->gradients, 2e-5);
      const absl::StatusOr<Trained> kept = TrainAdapters(divided);
      ASSERT_TRUE(kept.ok()) << kept.status();
      for (size_t step = 0; step < kSteps; ++step) {
        EXPECT_NEAR(kept->losses[step], trained->losses[step], 1e-4f) << step;
        EXPECT_NEAR(kept->norms[step], trained->norms[step], 1e-3 * trained->norms[step]) << step;
      }
      for (const auto what : {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
                              ActivationCheckpointing::kElementwise}) {
        divided.trainer.activation_checkpointing = what;
        const absl::StatusOr<Trained> again = TrainAdapters(divided);
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_TRUE(*again == *kept);
      }
    }
  }
}

// Of A and B one is divided, whose parts Muon joins. The other, a router and saved modules are
// whole on every tensor rank, and are updated once.
TEST(LoraTensorTest, MuonGivesTheSameBitsFromFixedPieces) {
  for (const char* model : {"gpt2_tiny", "llama_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"}) {
    const auto train = [&](const char* strategy, int tensor_ranks) {
      TinySetup setup = Divided(model, strategy, {tensor_ranks, 4});
      setup.trainer.optimizer = "muon";
      return TrainAdapters(setup);
    };
    const absl::StatusOr<Trained> one = train("no_shard", 1);
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_LT(one->losses.back(), one->losses.front() - 0.01f);
    for (const char* strategy : {"full_shard", "shard_optimizer", "no_shard"}) {
      const absl::StatusOr<Trained> two = train(strategy, 2);
      ASSERT_TRUE(two.ok()) << two.status();
      EXPECT_TRUE(*two == *one) << model << " " << strategy;
    }
  }
}

TEST(LoraTensorTest, FixedPiecesGiveTheSameBits) {
  for (const char* model : {"gpt2_tiny", "llama_tiny", "qwen3_5_tiny", "qwen3_moe_tiny"}) {
    const absl::StatusOr<Trained> one = TrainAdapters(Divided(model, "no_shard", {1, 4}));
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_LT(one->losses.back(), one->losses.front() - 0.01f);
    for (const char* strategy : {"full_shard", "shard_grad_op", "shard_optimizer", "no_shard"}) {
      const absl::StatusOr<Trained> two = TrainAdapters(Divided(model, strategy, {2, 4}));
      ASSERT_TRUE(two.ok()) << two.status();
      EXPECT_TRUE(*two == *one) << model << " " << strategy;
    }
  }
  const absl::StatusOr<Trained> one = TrainAdapters(Divided("gpt2_tiny", "full_shard", {1, 4}));
  const absl::StatusOr<Trained> four = TrainAdapters(Divided("gpt2_tiny", "full_shard", {4, 4}));
  ASSERT_TRUE(one.ok() && four.ok()) << one.status() << four.status();
  EXPECT_TRUE(*four == *one);
}

TEST_P(LoraModelTest, ComputingBlocksAgainChangesNoBit) {
  TinySetup setup = Adapted(model());
  if (!has_experts()) setup.model_options.lora.dropout = kDropout;
  setup.ranks = {"full_shard", 2, 0};
  const absl::StatusOr<Trained> kept = TrainAdapters(setup);
  for (const auto what : {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
                          ActivationCheckpointing::kElementwise}) {
    setup.trainer.activation_checkpointing = what;
    const absl::StatusOr<Trained> again = TrainAdapters(setup);
    ASSERT_TRUE(kept.ok() && again.ok()) << kept.status() << again.status();
    EXPECT_TRUE(*kept == *again);
  }
}

// One rank's memory for training state, and the bytes that it sent to reduce gradients.
struct Costs {
  int64_t optimizer = 0;
  int64_t gradients = 0;
  int64_t reduced = 0;
};

absl::StatusOr<Costs> CostsOfASecondStep(const TinySetup& setup) {
  Costs costs;
  const absl::Status run = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(rank.Step(0, 1e-3).status());
    const auto sent = [&] {
      return rank.trainer.sharding()
          .stats()
          .collectives[static_cast<size_t>(CollectiveOp::kReduceScatter)]
          .bytes;
    };
    const int64_t before = sent();
    rank.trainer.device().allocator().ResetPeaks();
    ZEROTH_RETURN_IF_ERROR(rank.Step(1, 1e-3).status());
    if (rank.trainer.world().rank() != 0) return absl::OkStatus();
    const MemoryStats memory = rank.trainer.device().allocator().stats();
    costs.optimizer = memory[MemoryCategory::kOptimizer].peak_bytes;
    costs.gradients = memory[MemoryCategory::kGradients].peak_bytes;
    costs.reduced = sent() - before;
    return absl::OkStatus();
  });
  ZEROTH_RETURN_IF_ERROR(run);
  return costs;
}

TEST_P(LoraModelTest, FrozenWeightsCostNoGradientsNoMomentsAndNoTraffic) {
  TinySetup setup = Adapted(model());
  setup.ranks = {"full_shard", 2, 0};
  const absl::StatusOr<NamedValues> file = TinyWeights(model());
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<Trained> trained = TrainAdapters(setup);
  ASSERT_TRUE(trained.ok()) << trained.status();
  int64_t adapters = 0;
  int64_t matrices = 0;
  for (const auto& [name, values] : trained->weights) {
    if (!IsAdapter(name)) continue;
    adapters += static_cast<int64_t>(values.size());
    ++matrices;
  }
  // Each matrix starts on a line of 16 floats, and a unit's end is rounded up to both ranks' lines.
  constexpr int64_t kLine = 16;
  const int64_t most = adapters + matrices * kLine + 4 * 2 * kLine;
  const absl::StatusOr<Costs> costs = CostsOfASecondStep(setup);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const int64_t float_bytes = 4;
  // Half of both moments; half of the gradients sent, and half of them received.
  EXPECT_GE(costs->optimizer, float_bytes * adapters);
  EXPECT_LE(costs->optimizer, float_bytes * most + 4 * 2 * 64);
  EXPECT_GE(costs->reduced, float_bytes * adapters / 2);
  EXPECT_LE(costs->reduced, float_bytes * most / 2);
  // The shards of all units, and two blocks' in full at most.
  EXPECT_LE(costs->gradients, float_bytes * (most / 2 + most));
  // A single frozen weight would not fit into that.
  TinySetup plain = setup;
  plain.model_options = ModelOptions();
  const absl::StatusOr<Costs> full = CostsOfASecondStep(plain);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_GT(full->optimizer, 8 * costs->optimizer);
  EXPECT_GT(full->gradients, 5 * costs->gradients);
  EXPECT_GT(full->reduced, 8 * costs->reduced);
}

TEST_P(LoraModelTest, TargetsChooseWhatIsTrained) {
  const char* target = in_out() ? "attn.c_proj" : "v_proj";
  const absl::StatusOr<Gradients> found = FirstGradients(Adapted(model(), {target}), nullptr);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->gradients.size(), 2 * blocks());  // two matrices in each
  for (const auto& [name, gradient] : found->gradients) {
    EXPECT_TRUE(absl::StrContains(name, absl::StrCat(target, ".lora_"))) << name;
  }
}

TEST(LoraExpertsTest, AreLeftOutOrRefusedWhereTheyCannotBeAdapted) {
  const auto directory = HfDirectory::Open("tests/testdata/qwen3_moe_tiny");
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto adapters = [&](LoraOptions lora) -> absl::StatusOr<size_t> {
    lora.rank = kRank;
    ModelOptions options;
    options.lora = lora;
    ZEROTH_ASSIGN_OR_RETURN(const auto model,
                            ModelRegistry::Create(directory->config().json(), options));
    return LoraAdapters(*model).size();
  };
  constexpr size_t kLayers = 2;
  constexpr size_t kExperts = 8;
  LoraOptions all;
  LoraOptions no_experts;
  no_experts.experts = false;
  LoraOptions up;
  up.targets = {"up_proj"};
  EXPECT_EQ(*adapters(all), kLayers * (4 + 3 * kExperts));
  EXPECT_EQ(*adapters(no_experts), kLayers * 4);
  EXPECT_EQ(*adapters(up), kLayers * kExperts);
  LoraOptions one = up;
  one.targets = {"3.up_proj"};
  LoraOptions dora = all;
  dora.dora = true;
  LoraOptions dropout = all;
  dropout.dropout = kDropout;
  for (const auto& [lora, expected] :
       {std::pair(one, "1 of the 8 experts"), std::pair(dora, "no DoRA"),
        std::pair(dropout, "no dropout")}) {
    const absl::Status refused = adapters(lora).status();
    EXPECT_TRUE(absl::StrContains(refused.message(), expected)) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "'model.layers.0.mlp.experts'")) << refused;
  }
}

TEST_P(LoraModelTest, TheWrittenModelIsPlainAndComputesTheSame) {
  const TemporaryDirectory scratch;
  const std::string path = scratch.File("final");
  const std::vector<int32_t> prompt = {3, 141, 59, 26, 5, 35, 89, 79, 32, 38, 4, 6};
  std::vector<float> adapted;
  float loss = 0;
  TinySetup setup = Adapted(model());
  setup.ranks = {"full_shard", 2, 0};
  const absl::Status trained = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    for (int64_t step = 0; step < kSteps; ++step) {
      ZEROTH_RETURN_IF_ERROR(rank.Step(step, 1e-2).status());
    }
    ZEROTH_ASSIGN_OR_RETURN(const Tensor logits, rank.trainer.Logits(prompt, 0));
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, rank.loader.Load(7));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult mine, rank.trainer.Evaluate(batch));
    ZEROTH_RETURN_IF_ERROR(rank.trainer.sharding().scheduler().EndStep());
    ZEROTH_RETURN_IF_ERROR(ExportModel(rank.trainer, path, {}));
    if (rank.trainer.world().rank() != 0) return absl::OkStatus();
    loss = mine.loss;
    ZEROTH_ASSIGN_OR_RETURN(adapted, logits.ToHost<float>());
    return absl::OkStatus();
  });
  ASSERT_TRUE(trained.ok()) << trained;

  const absl::StatusOr<HfDirectory> written = HfDirectory::Open(path);
  ASSERT_TRUE(written.ok()) << written.status();
  const absl::StatusOr<NamedValues> file = TinyWeights(model());
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> names;
  for (const auto& [name, values] : *file) names.push_back(name);
  EXPECT_EQ(written->weights().names(), names);

  TinySetup plain;
  plain.model = model();
  plain.ranks = setup.ranks;
  const absl::Status compared = RunTiny(plain, [&](TinyRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(rank.trainer.sharding().Load(
        [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
          return written->weights().ReadElements(parameter.name(), begin, out);
        }));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor logits, rank.trainer.Logits(prompt, 0));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> merged, logits.ToHost<float>());
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, rank.loader.Load(7));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult mine, rank.trainer.Evaluate(batch));
    EXPECT_NEAR(mine.loss, loss, 2e-5f * loss);
    EXPECT_EQ(merged.size(), adapted.size());
    for (size_t i = 0; i < merged.size(); ++i) EXPECT_NEAR(merged[i], adapted[i], 2e-5f) << i;
    return rank.trainer.sharding().scheduler().EndStep();
  });
  EXPECT_TRUE(compared.ok()) << compared;
}

// PEFT's result with the adapter's directory, W + alpha / r * B A (transposed for GPT-2), or with
// sqrt(r) for rank-stabilized adapters, here GPT-2's, is the merged model.
TEST_P(LoraModelTest, AdaptersWrittenAloneAreThoseOfTheMergedModel) {
  const TemporaryDirectory dir;
  TinySetup setup = Adapted(model(), in_out() ? std::vector<std::string>{}
                                              : std::vector<std::string>{"q_proj", "down_proj"});
  setup.ranks = {"full_shard", 2, 0};
  setup.model_options.lora.rslora = in_out();
  setup.model_options.lora.modules_to_save =
      AdaptedAndSaved(model()).model_options.lora.modules_to_save;
  ExportOptions options;
  options.base_model = "where/it/was";
  options.directory.max_shard_bytes = 1000;
  const absl::Status trained = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(rank.Step(0, 1e-2).status());
    ZEROTH_RETURN_IF_ERROR(ExportModel(rank.trainer, dir.File("merged"), options));
    ExportOptions alone = options;
    alone.directory.kind = HfDirectoryKind::kAdapter;
    return ExportModel(rank.trainer, dir.File("adapter"), alone);
  });
  ASSERT_TRUE(trained.ok()) << trained;

  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.File("adapter")), {}), 2);
  const auto config = HfConfig::Load(dir.File("adapter/adapter_config.json"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->GetString("base_model_name_or_path"), "where/it/was");
  EXPECT_EQ(*config->GetBool("fan_in_fan_out"), in_out());
  EXPECT_EQ(*config->GetInt("r"), kRank);
  EXPECT_EQ(*config->GetBool("use_rslora"), in_out());
  EXPECT_EQ(config->json()["modules_to_save"], setup.model_options.lora.modules_to_save);
  const auto rank = static_cast<double>(kRank);
  const double scale = *config->GetDouble("lora_alpha") / (in_out() ? std::sqrt(rank) : rank);

  const auto adapter = SafetensorsFile::Open(dir.File("adapter/adapter_model.safetensors"));
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const auto merged = HfDirectory::Open(dir.File("merged"));
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto base = TinyWeights(model());
  ASSERT_TRUE(base.ok()) << base.status();
  const auto half = [&](const std::string& name) {
    const Shape shape = *(*adapter)->ShapeOf(name);
    return GridOf(*(*adapter)->ReadAll(name, shape), shape.dim(0));
  };
  size_t adapted = 0;
  for (const auto& [name, values] : *base) {
    const std::string layer = absl::StrCat("base_model.model.", name.substr(0, name.rfind('.')));
    const Shape shape = merged->weights().Find(name)->shape;
    std::vector<double> expected(values.begin(), values.end());
    if (absl::EndsWith(name, ".weight") && (*adapter)->Find(layer + ".lora_A.weight") != nullptr) {
      const Grid a = half(layer + ".lora_A.weight");
      const Grid b = half(layer + ".lora_B.weight");
      EXPECT_EQ(a.rows, kRank);
      EXPECT_EQ(b.cols, kRank);
      const Grid product = Matmul(b, a, scale);
      const Grid added = in_out() ? Transposed(product) : product;
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += added.values[i];
      adapted += 2;
    } else if ((*adapter)->Find("base_model.model." + name) != nullptr) {
      const std::vector<float> saved = *(*adapter)->ReadAll("base_model.model." + name, shape);
      EXPECT_NE(saved, values) << name;
      EXPECT_TRUE(IsSaved(name)) << name;
      expected.assign(saved.begin(), saved.end());
      ++adapted;
    } else {
      EXPECT_FALSE(IsSaved(name)) << name;
    }
    ExpectNear(*merged->weights().ReadAll(name, shape),
               Grid{1, static_cast<int64_t>(expected.size()), expected}, 1e-6, name);
  }
  EXPECT_EQ(adapted, (*adapter)->names().size());
  EXPECT_GT(adapted, 0u);
  // PEFT decides by the layer's class, whatever this key says. On square layers the values would be
  // wrong without an error.
  nlohmann::json flipped = config->json();
  flipped["fan_in_fan_out"] = !in_out();
  std::ofstream(dir.File("adapter/adapter_config.json")) << flipped.dump();
  const auto opened = OpenModel(dir.File("adapter"), "tests/testdata/" + model());
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const auto& [name, values] : *base) {
    const Shape shape = merged->weights().Find(name)->shape;
    const std::vector<float> by_class = *opened->weights().ReadAll(name, shape);
    ExpectNear(*merged->weights().ReadAll(name, shape),
               Grid{1, static_cast<int64_t>(by_class.size()), {by_class.begin(), by_class.end()}},
               1e-6, name);
  }
}

TEST_P(LoraModelTest, WhatIsWrittenInBf16IsRounded) {
  const TemporaryDirectory dir;
  TinySetup setup;
  setup.model = model();
  ExportOptions options;
  options.dtype = DType::kBFloat16;
  const absl::Status written = RunTiny(
      setup, [&](TinyRank& rank) { return ExportModel(rank.trainer, dir.File("model"), options); });
  ASSERT_TRUE(written.ok()) << written;
  const auto directory = HfDirectory::Open(dir.File("model"));
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(*directory->config().GetString("torch_dtype"), "bfloat16");
  const auto weights = TinyWeights(model());
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (auto& [name, values] : *weights) {
    std::vector<float> rounded = values;
    for (float& value : rounded) value = ToFloat(ToBFloat16(value));
    EXPECT_EQ(directory->weights().Find(name)->dtype, SafetensorsDType::kBF16);
    EXPECT_EQ(*directory->weights().ReadAll(name, directory->weights().Find(name)->shape), rounded);
  }
}

TEST_P(LoraModelTest, AModelWithoutAdaptersHasNoneToWrite) {
  const TemporaryDirectory dir;
  TinySetup setup;
  setup.model = model();
  ExportOptions alone;
  alone.directory.kind = HfDirectoryKind::kAdapter;
  const absl::Status written = RunTiny(
      setup, [&](TinyRank& rank) { return ExportModel(rank.trainer, dir.File("adapter"), alone); });
  EXPECT_EQ(written.code(), absl::StatusCode::kInvalidArgument) << written;
  EXPECT_TRUE(dir.List().empty());
}

TEST_P(LoraModelTest, FrozenWeightsCountForUtilisationWithoutTheirGradients) {
  const absl::StatusOr<HfDirectory> directory =
      HfDirectory::Open(absl::StrCat("tests/testdata/", model()));
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto plain = ModelRegistry::Create(directory->config().json());
  const auto adapted =
      ModelRegistry::Create(directory->config().json(), Adapted(model()).model_options);
  ASSERT_TRUE(plain.ok() && adapted.ok()) << plain.status() << adapted.status();
  double added = 0;  // that a token is multiplied with: two of eight experts
  for (const Parameter* parameter : (*adapted)->Parameters()) {
    if (!IsAdapter(parameter->name())) continue;
    const bool is_expert = absl::StrContains(parameter->name(), ".experts.");
    added += static_cast<double>(parameter->global_numel()) * (is_expert ? 0.25 : 1);
  }
  ASSERT_GT(added, 0);
  // Weights that tokens are multiplied with: what is left of a plain model's cost at length 0.
  const double weights = (*plain)->FlopsPerToken(0) / 6;
  EXPECT_DOUBLE_EQ((*adapted)->FlopsPerToken(0), 4 * weights + 6 * added);
  // The head is the only matrix that is trained in full and multiplied with tokens.
  const auto saved =
      ModelRegistry::Create(directory->config().json(), AdaptedAndSaved(model()).model_options);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto head = static_cast<double>((*saved)->head_weight().global_numel());
  EXPECT_DOUBLE_EQ((*saved)->FlopsPerToken(0), (*adapted)->FlopsPerToken(0) + 2 * head);
}

INSTANTIATE_TEST_SUITE_P(Models, LoraModelTest,
                         ::testing::Values("gpt2_tiny", "llama_tiny", "qwen2_tiny",
                                           "qwen3_moe_tiny"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace zeroth::testing
