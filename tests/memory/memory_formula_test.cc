// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares measured peaks with the formula: of a small GPT-2 in every case, and of gpt2_124m in a
// few cases or, nightly, in all of them.

#include "zeroth/strategies/testing/memory_formula.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/strategies/mixed_precision.h"

namespace zeroth {
namespace {

// Llamas with adapters beside packed weights.
constexpr char kNf4[] = "llama_nf4";
constexpr char kQ4K[] = "llama_q4_k";

// Mixtures with l <= L / 8, with l > L / 8, and the latter with NF4 and LoRA (docs/memory.md).
constexpr char kMixture[] = "qwen3_moe";
constexpr char kWideMixture[] = "qwen3_moe_wide";
constexpr char kMixtureNf4[] = "qwen3_moe_nf4";
// Mixtures with LoRA: gather buffers have l <= L / 8 and gradient buffers not, and the reverse.
constexpr char kLoraMixture[] = "qwen3_moe_lora";
constexpr char kThinLoraMixture[] = "qwen3_moe_thin_lora";

bool IsPacked(const std::string& model) {
  return model == kNf4 || model == kQ4K || model == kMixtureNf4;
}
bool IsMixture(const std::string& model) {
  return model == kMixture || model == kWideMixture || model == kMixtureNf4 ||
         model == kLoraMixture || model == kThinLoraMixture;
}
bool HasAdapters(const std::string& model) {
  return IsPacked(model) || model == kLoraMixture || model == kThinLoraMixture;
}
int ExpertCount(const std::string& model) {
  if (model == kMixture) return 16;
  if (model == kLoraMixture) return 9;
  return model == kThinLoraMixture ? 32 : 2;
}

// The preset, or "small": the same model, a twentieth of the size.
absl::StatusOr<nlohmann::json> ModelConfig(const std::string& model) {
  if (IsMixture(model)) {
    ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("qwen3_30b_a3b"));
    const int experts = ExpertCount(model);
    const std::pair<const char*, int> sizes[] = {
        {"vocab_size", 1024},
        {"hidden_size", 128},
        {"num_hidden_layers", 3},
        {"num_attention_heads", 4},
        {"num_key_value_heads", 2},
        {"head_dim", 32},
        {"num_experts", experts},
        {"num_local_experts", experts},
        {"num_experts_per_tok", 2},
        {"moe_intermediate_size", model == kThinLoraMixture ? 16 : 128},
        {"max_position_embeddings", 64}};
    for (const auto& [key, size] : sizes) config[key] = size;
    return config;
  }
  if (IsPacked(model)) {
    return nlohmann::json{{"model_type", "llama"},        {"vocab_size", 2048},
                          {"hidden_size", 256},           {"intermediate_size", 768},
                          {"num_hidden_layers", 6},       {"num_attention_heads", 4},
                          {"num_key_value_heads", 2},     {"max_position_embeddings", 64},
                          {"tie_word_embeddings", false}, {"rms_norm_eps", 1e-5},
                          {"rope_theta", 10000.0}};
  }
  if (model != "small") return PresetConfig(model);
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("gpt2_124m"));
  config["vocab_size"] = 8192;
  config["n_positions"] = 256;
  config["n_embd"] = 256;
  config["n_layer"] = 6;
  config["n_head"] = 4;
  return config;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> MakeModel(const std::string& name) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ModelConfig(name));
  ModelOptions options;
  if (HasAdapters(name)) options.lora.rank = 16;
  if (name == kNf4 || name == kMixtureNf4) options.lora.base_format = PackedFormat::kNf4;
  for (int layer = 0; name == kQ4K && layer < 6; ++layer) {
    for (const char* weight : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                               "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      options.lora.base_formats[absl::StrCat("model.layers.", layer, ".", weight, ".weight")] =
          PackedFormat::kQ4_K;
  }
  return ModelRegistry::Create(config, options);
}

// Counted from the parameters' names and shapes, not from the units that the code under test makes.
absl::StatusOr<ModelNumel> CountParameters(const std::string& name) {
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, MakeModel(name));
  ModelNumel sizes;
  for (const Parameter* parameter : model->Parameters()) {
    const double numel = static_cast<double>(parameter->numel());
    const double frozen = parameter->requires_grad() ? 0 : numel;
    const absl::string_view path = parameter->name();
    const bool in_block = absl::StrContains(path, ".h.") || absl::StrContains(path, ".layers.");
    const bool in_first = absl::StrContains(path, ".h.0.") || absl::StrContains(path, ".layers.0.");
    const bool nested = absl::StrContains(path, ".experts.");
    if (parameter->dtype() == DType::kUInt8) {
      sizes.packed_bytes += numel;
      if (in_first) (nested ? sizes.packed_nested_bytes : sizes.packed_block_bytes) += numel;
      continue;
    }
    sizes.total += numel;
    if (frozen == 0 && numel < kMin8bitNumel) sizes.small += numel;
    sizes.frozen += frozen;
    if (in_first) (nested ? sizes.nested : sizes.block) += numel;
    if (in_first) (nested ? sizes.frozen_nested : sizes.frozen_block) += frozen;
    if (!in_block) sizes.root += numel;
    if (!in_block) sizes.frozen_root += frozen;
    if (in_block && parameter->shape().rank() == 2) sizes.matrices += numel;
  }
  return sizes;
}

using Case = MemoryFormulaOptions;

absl::Status TrainRank(const std::string& name, const Case& test_case, Communicator& world,
                       std::mutex& mutex, std::vector<ShardingStats>& measured) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, MakeModel(name));
  TrainerOptions options;
  options.sharding.strategy = test_case.strategy;
  options.sharding.strategy_options.shard_size = test_case.shard_size;
  options.sharding.strategy_options.reshard_after_forward = test_case.reshard_after_forward;
  options.sharding.strategy_options.post_forward_shard_size = test_case.post_forward_shard_size;
  options.sharding.strategy_options.shard_optimizer_over_world =
      test_case.shard_optimizer_over_world;
  options.sharding.mixed_precision = test_case.precision;
  options.sharding.offload = test_case.offload;
  options.optimizer_options.state_dtype = test_case.moment_dtype;
  if (test_case.muon) options.optimizer = "muon";
  options.sync_every_micro_batch = test_case.sync_every_micro_batch;
  if (test_case.sums_in_tree) {
    options.deterministic_batch = test_case.micro_batches * test_case.world_size;
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  device->allocator().ResetPeaks();
  Batch batch;
  batch.batch = 1;
  batch.seq = 2;
  batch.inputs = {11, 17 + world.rank()};
  batch.targets = {17 + world.rank(), 5};
  // The second step knows the order of units and prefetches.
  const std::vector<Batch> batches(static_cast<size_t>(test_case.micro_batches), batch);
  for (int step = 0; step < 2; ++step) {
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batches, 1e-4).status());
  }
  const ShardingStats stats = trainer->sharding().stats();
  std::lock_guard<std::mutex> lock(mutex);
  measured.push_back(stats);
  return absl::OkStatus();
}

using NamedCase = std::pair<std::string, Case>;  // of a model

class MemoryFormulaTest : public testing::TestWithParam<NamedCase> {};

TEST_P(MemoryFormulaTest, PeaksAreTheFormula) {
  const std::string& model = GetParam().first;
  const Case& test_case = GetParam().second;
  const absl::StatusOr<ModelNumel> sizes = CountParameters(model);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  if (!IsPacked(model) && !IsMixture(model)) {
    ASSERT_EQ(sizes->total, model == "small" ? 6901760 : 124439808);
  }
  std::mutex mutex;
  std::vector<ShardingStats> measured;
  const absl::Status status = RunLocalRanks(test_case.world_size, [&](Communicator& world) {
    return TrainRank(model, test_case, world, mutex, measured);
  });
  ASSERT_TRUE(status.ok()) << status;
  const absl::StatusOr<StateBytes> expected = PredictStateBytes(*sizes, test_case);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(measured.size(), static_cast<size_t>(test_case.world_size));
  for (const ShardingStats& stats : measured) {
    const MemoryStats& rank = stats.memory;
    const auto peak = [&](MemoryCategory category) {
      return static_cast<double>(rank[category].peak_bytes);
    };
    const double kTolerance = IsMixture(model) ? 0.01 : 0.02;
    EXPECT_NEAR(peak(MemoryCategory::kParameters), expected->parameters,
                kTolerance * expected->parameters);
    EXPECT_NEAR(peak(MemoryCategory::kGatheredParameters), expected->gathered_parameters,
                kTolerance * expected->gathered_parameters);
    EXPECT_NEAR(peak(MemoryCategory::kGradients), expected->gradients,
                kTolerance * expected->gradients);
    EXPECT_NEAR(peak(MemoryCategory::kOptimizer), expected->optimizer,
                kTolerance * expected->optimizer);
    EXPECT_NEAR(peak(MemoryCategory::kOffloadStaging), expected->offload_staging,
                kTolerance * expected->offload_staging);
    EXPECT_NEAR(static_cast<double>(stats.offload.reserved_bytes), expected->offloaded,
                kTolerance * expected->offloaded);
    // Between steps no full buffer is left.
    EXPECT_EQ(rank[MemoryCategory::kOffloadStaging].current_bytes, 0);
    EXPECT_EQ(rank[MemoryCategory::kGatheredParameters].current_bytes, 0);
    EXPECT_EQ(rank[MemoryCategory::kGradients].current_bytes, 0);
  }
}

Case Of(const std::string& strategy, int world_size, const MixedPrecision& precision = {}) {
  Case test_case;
  test_case.strategy = strategy;
  test_case.world_size = world_size;
  test_case.shard_size = strategy == "hybrid_shard" ? world_size / 2 : 0;
  test_case.precision = precision;
  return test_case;
}

Case InGroupsOf(int shard_size, Case test_case) {
  test_case.shard_size = shard_size;
  return test_case;
}

constexpr const char* kStrategies[] = {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard",
                                       "hybrid_shard"};

// `kinds`: letters of "pgo", for parameters, gradients and optimizer.
Case Offloading(Case test_case, absl::string_view kinds) {
  test_case.offload.parameters = absl::StrContains(kinds, 'p');
  test_case.offload.gradients = absl::StrContains(kinds, 'g');
  test_case.offload.optimizer = absl::StrContains(kinds, 'o');
  return test_case;
}

std::vector<Case> OffloadCases() {
  const MixedPrecision low = {DType::kBFloat16, DType::kBFloat16};
  std::vector<Case> cases;
  for (const char* strategy : kStrategies) {
    cases.push_back(Offloading(Of(strategy, 2), "pgo"));
  }
  for (const char* strategy : {"no_shard", "shard_optimizer", "full_shard"}) {
    Case accumulating = Offloading(Of(strategy, 2, low), "pgo");
    for (const bool sync_every : {true, false}) {
      accumulating.micro_batches = 2;
      accumulating.sync_every_micro_batch = sync_every;
      cases.push_back(accumulating);
    }
  }
  for (const char* kinds : {"p", "g", "o", "go"}) {
    cases.push_back(Offloading(Of("full_shard", 4), kinds));
  }
  cases.push_back(Offloading(Of("full_shard", 1), "pgo"));
  cases.push_back(Offloading(Of("full_shard", 2, low), "pgo"));
  return cases;
}

// In two groups, and in groups of one.
std::vector<Case> OverWorldCases() {
  const MixedPrecision low = {DType::kBFloat16, DType::kBFloat16};
  std::vector<Case> cases;
  for (const MixedPrecision& precision : {MixedPrecision(), low}) {
    for (const int64_t micro_batches : {1, 2}) {
      Case over_world = Of("hybrid_shard", 4, precision);
      over_world.shard_optimizer_over_world = true;
      over_world.micro_batches = micro_batches;
      cases.push_back(over_world);
    }
  }
  Case accumulating = cases.back();
  accumulating.world_size = 2;
  accumulating.shard_size = 1;
  cases.push_back(accumulating);
  cases.push_back(Offloading(cases.front(), "pgo"));
  cases.push_back(cases.front());
  cases.back().reshard_after_forward = false;
  return cases;
}

std::vector<Case> MuonCases() {
  std::vector<Case> cases = {Of("no_shard", 2), Of("full_shard", 4), Of("hybrid_shard", 4)};
  for (Case& test_case : cases) test_case.muon = true;
  cases[1].moment_dtype = DType::kBFloat16;
  return cases;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = MuonCases();
  for (const char* strategy : kStrategies) {
    for (const int world_size : {2, 4, 8}) cases.push_back(Of(strategy, world_size));
    for (const DType reduce_dtype : {DType::kFloat32, DType::kBFloat16}) {
      cases.push_back(Of(strategy, 2, {DType::kBFloat16, reduce_dtype}));
    }
    for (const bool sync_every : {true, false}) {
      Case accumulating = Of(strategy, 2, {DType::kBFloat16, DType::kBFloat16});
      accumulating.micro_batches = 2;
      accumulating.sync_every_micro_batch = sync_every;
      cases.push_back(accumulating);
    }
  }
  for (const char* strategy : {"no_shard", "full_shard"}) {
    for (const DType moment_dtype : {DType::kBFloat16, DType::kUInt8}) {
      Case low = Of(strategy, 2);
      low.moment_dtype = moment_dtype;
      cases.push_back(low);
      low.precision = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};
      cases.push_back(low);
    }
  }
  for (const char* strategy : {"shard_optimizer", "shard_grad_op"}) {
    cases.push_back(InGroupsOf(2, Of(strategy, 4, {DType::kBFloat16, DType::kBFloat16})));
    cases.back().micro_batches = 2;
    cases.push_back(InGroupsOf(1, Offloading(cases.back(), "pgo")));
  }
  Case kept = Of("full_shard", 4);
  kept.reshard_after_forward = false;
  cases.push_back(kept);
  Case post_forward = Of("full_shard", 4);
  post_forward.post_forward_shard_size = 2;
  cases.push_back(post_forward);
  post_forward.precision = {DType::kBFloat16, DType::kBFloat16};
  cases.push_back(post_forward);
  const std::vector<Case> offloading = OffloadCases();
  cases.insert(cases.end(), offloading.begin(), offloading.end());
  const std::vector<Case> over_world = OverWorldCases();
  cases.insert(cases.end(), over_world.begin(), over_world.end());
  return cases;
}

std::vector<NamedCase> ForModel(const std::string& model, const std::vector<Case>& cases) {
  std::vector<NamedCase> named;
  for (const Case& test_case : cases) named.emplace_back(model, test_case);
  return named;
}

std::vector<Case> FewCases() {
  const MixedPrecision low = {DType::kBFloat16, DType::kBFloat16};
  return {Of("full_shard", 4), Of("hybrid_shard", 4, low), Offloading(Of("full_shard", 2), "pgo")};
}

std::string CaseName(const testing::TestParamInfo<NamedCase>& instance) {
  const Case& test_case = instance.param.second;
  std::string name = absl::StrCat(test_case.strategy, "_world", test_case.world_size, "_",
                                  DTypeName(test_case.precision.param_dtype), "_",
                                  DTypeName(test_case.precision.reduce_dtype));
  if (test_case.micro_batches > 1) {
    absl::StrAppend(&name, "_micro_", test_case.sync_every_micro_batch ? "every" : "last");
  }
  if (test_case.sums_in_tree) absl::StrAppend(&name, "_tree", test_case.micro_batches);
  if (!test_case.reshard_after_forward) absl::StrAppend(&name, "_kept");
  if (test_case.post_forward_shard_size > 0) {
    absl::StrAppend(&name, "_post_forward", test_case.post_forward_shard_size);
  }
  if (test_case.shard_optimizer_over_world) absl::StrAppend(&name, "_over_world");
  if (test_case.offload.any()) {
    absl::StrAppend(&name, "_offload_", test_case.offload.parameters ? "p" : "",
                    test_case.offload.gradients ? "g" : "", test_case.offload.optimizer ? "o" : "");
  }
  if (test_case.precision.master_dtype != DType::kFloat32) {
    absl::StrAppend(&name, "_without_masters");
  }
  if (test_case.muon) absl::StrAppend(&name, "_muon");
  if (test_case.moment_dtype != DType::kFloat32) {
    absl::StrAppend(&name, "_", DTypeName(test_case.moment_dtype), "_moments");
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Small, MemoryFormulaTest, testing::ValuesIn(ForModel("small", Cases())),
                         CaseName);
std::vector<Case> PackedCases() {
  const MixedPrecision low = {DType::kBFloat16, DType::kBFloat16};
  std::vector<Case> cases;
  for (const char* strategy : kStrategies) {
    cases.push_back(Of(strategy, 4));
    cases.push_back(Of(strategy, 4, low));
  }
  for (const char* strategy : {"full_shard", "shard_optimizer"}) {
    for (const bool sync_every : {true, false}) {
      cases.push_back(Of(strategy, 2, low));
      cases.back().micro_batches = 2;
      cases.back().sync_every_micro_batch = sync_every;
    }
  }
  for (const bool sync_every : {true, false}) {
    cases.push_back(InGroupsOf(1, Offloading(Of("shard_grad_op", 4, low), "pgo")));
    cases.back().micro_batches = 2;
    cases.back().sync_every_micro_batch = sync_every;
  }
  for (const char* strategy : {"no_shard", "full_shard"}) {
    for (const int64_t micro_batches : {2, 8}) {
      cases.push_back(Of(strategy, 2, low));
      cases.back().micro_batches = micro_batches;
      cases.back().sums_in_tree = true;
    }
  }
  cases.push_back(Of("full_shard", 4, low));
  cases.back().reshard_after_forward = false;
  cases.push_back(Offloading(Of("full_shard", 2, low), "p"));
  return cases;
}

std::vector<Case> MixtureCases() {
  const MixedPrecision low = {DType::kBFloat16, DType::kBFloat16};
  std::vector<Case> cases = PackedCases();
  cases.push_back(Offloading(Of("full_shard", 2), "pgo"));
  cases.push_back(Of("hybrid_shard", 4, low));
  cases.back().shard_optimizer_over_world = true;
  cases.push_back(Of("full_shard", 4, low));
  cases.back().post_forward_shard_size = 2;
  for (const bool sync_every : {true, false}) {
    cases.push_back(Offloading(Of("shard_optimizer", 2, low), "pgo"));
    cases.back().micro_batches = 2;
    cases.back().sync_every_micro_batch = sync_every;
  }
  cases.push_back(Of("no_shard", 2, low));
  cases.back().micro_batches = 2;
  Case over_world = Of("hybrid_shard", 2, low);
  over_world.shard_optimizer_over_world = true;
  over_world.micro_batches = 2;
  cases.push_back(over_world);  // in groups of one rank
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Mixture, MemoryFormulaTest,
                         testing::ValuesIn(ForModel(kMixture, MixtureCases())), CaseName);
INSTANTIATE_TEST_SUITE_P(WideMixture, MemoryFormulaTest,
                         testing::ValuesIn(ForModel(kWideMixture, MixtureCases())), CaseName);
INSTANTIATE_TEST_SUITE_P(LoraMixture, MemoryFormulaTest,
                         testing::ValuesIn(ForModel(kLoraMixture, MixtureCases())), CaseName);
INSTANTIATE_TEST_SUITE_P(ThinLoraMixture, MemoryFormulaTest,
                         testing::ValuesIn(ForModel(kThinLoraMixture, MixtureCases())), CaseName);
INSTANTIATE_TEST_SUITE_P(MixtureNf4, MemoryFormulaTest,
                         testing::ValuesIn(ForModel(kMixtureNf4, PackedCases())), CaseName);
INSTANTIATE_TEST_SUITE_P(Nf4, MemoryFormulaTest, testing::ValuesIn(ForModel(kNf4, PackedCases())),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Q4K, MemoryFormulaTest, testing::ValuesIn(ForModel(kQ4K, PackedCases())),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Gpt2_124m, MemoryFormulaTest,
                         testing::ValuesIn(ForModel("gpt2_124m", FewCases())), CaseName);
INSTANTIATE_TEST_SUITE_P(NightlyGpt2_124m, MemoryFormulaTest,
                         testing::ValuesIn(ForModel("gpt2_124m", Cases())), CaseName);

}  // namespace
}  // namespace zeroth
