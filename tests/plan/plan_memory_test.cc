// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the planned memory with a run's: rank 0's peak in real steps of real ranks on CPUs, as
// the allocator counts it.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/plan.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/reference_losses.h"

namespace zeroth {
namespace {

Machine SomeCpu() {
  Machine cpu;
  cpu.name = "some CPU";
  cpu.is_gpu = false;
  cpu.devices_per_node = 4;
  cpu.memory_bytes = 1e9;
  cpu.fp32_flops = cpu.tf32_flops = cpu.bf16_flops = 5e10;
  cpu.memory_bandwidth = 5e9;
  cpu.link_bandwidth = cpu.host_bandwidth = 2e9;
  return cpu;
}

constexpr char kMoe[] = "small_moe";
constexpr char kBalancedMoe[] = "small_balanced_moe";
constexpr char kWideMoe[] = "qwen3_moe_wide";  // rows of 256
constexpr char kOlmo2[] = "small_olmo2";
constexpr char kLlama[] = "small_llama";
constexpr char kStudent[] = "small_student";  // with the tokens of the teachers in tests/testdata

absl::StatusOr<nlohmann::json> SmallOlmo2() {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("olmo2_1b"));
  const std::pair<const char*, int> sizes[] = {
      {"vocab_size", 512},        {"hidden_size", 64},        {"num_hidden_layers", 3},
      {"num_attention_heads", 4}, {"num_key_value_heads", 4}, {"intermediate_size", 128}};
  for (const auto& [key, size] : sizes) config[key] = size;
  return config;
}

// Its rows are multiples of 256, the blocks of Q4_K.
absl::StatusOr<nlohmann::json> SmallLlama() {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("llama_tiny"));
  const std::pair<const char*, int> sizes[] = {{"vocab_size", 512},
                                               {"hidden_size", 256},
                                               {"num_hidden_layers", 3},
                                               {"num_attention_heads", 4},
                                               {"num_key_value_heads", 2},
                                               {"intermediate_size", 512},
                                               {"max_position_embeddings", 256}};
  for (const auto& [key, size] : sizes) config[key] = size;
  return config;
}

absl::StatusOr<nlohmann::json> SmallStudent() {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, SmallLlama());
  config["vocab_size"] = 257;
  return config;
}

// A preset's, or that of a small model of a family whose presets are large.
absl::StatusOr<nlohmann::json> ConfigOf(const std::string& model) {
  if (model == kOlmo2) return SmallOlmo2();
  if (model == kLlama) return SmallLlama();
  if (model == kStudent) return SmallStudent();
  if (model != kMoe && model != kBalancedMoe && model != kWideMoe) return PresetConfig(model);
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("qwen3_30b_a3b"));
  const std::pair<const char*, int> sizes[] = {
      {"vocab_size", 512},        {"hidden_size", 64},          {"num_hidden_layers", 3},
      {"num_attention_heads", 4}, {"num_key_value_heads", 2},   {"head_dim", 16},
      {"intermediate_size", 96},  {"num_experts", 8},           {"num_local_experts", 8},
      {"num_experts_per_tok", 2}, {"moe_intermediate_size", 48}};
  for (const auto& [key, size] : sizes) config[key] = size;
  if (model == kWideMoe) {
    config["hidden_size"] = config["intermediate_size"] = config["moe_intermediate_size"] = 256;
    config["head_dim"] = 64;
  }
  config["mlp_only_layers"] = {1};
  config["output_router_logits"] = model == kBalancedMoe;
  return config;
}

// Under --base_dtype=gguf the formats are those of the file. Here all are Q4_K.
ModelOptions ModelOptionsOf(const TrainOptions& options) {
  ModelOptions model;
  model.lora = options.lora();
  if (options.base_dtype != BaseDtype::kGguf) return model;
  for (int layer = 0; layer < 3; ++layer) {
    std::vector<std::string> names;
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      names.push_back(absl::StrCat("self_attn.", name));
    }
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      names.push_back(absl::StrCat("mlp.", name));
      for (int expert = 0; expert < 8; ++expert) {
        names.push_back(absl::StrCat("mlp.experts.", expert, ".", name));
      }
    }
    for (const std::string& name : names) {
      model.lora.base_formats[absl::StrCat("model.layers.", layer, ".", name, ".weight")] =
          PackedFormat::kQ4_K;
    }
  }
  return model;
}

// Builds the model from --init_from's files or from the configuration.
absl::StatusOr<std::unique_ptr<LanguageModel>> BuildModel(const TrainOptions& options) {
  if (options.base_dtype == BaseDtype::kMxfp4) {
    ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(options));
    return source.Build();
  }
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ConfigOf(options.model));
  return ModelRegistry::Create(config, ModelOptionsOf(options));
}

absl::StatusOr<std::unique_ptr<Trainer>> LoadTeacher(Rank& rank, const TrainOptions& options) {
  TrainOptions of_teacher;
  of_teacher.init_from = options.teacher;
  of_teacher.tokenizer = "byte";
  of_teacher.router_dtype = options.router_dtype;
  ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(of_teacher));
  return LoadFrozen(rank, source, options, "teacher");
}

absl::Status RunRank(const TrainOptions& options, Communicator& world, MemoryStats& stats) {
  DeviceOptions device_options;
  device_options.threads = options.threads_per_rank;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", device_options));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildModel(options));
  const int64_t tokens = std::min<int64_t>(200, model->vocab_size());
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, *device));
  ZEROTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create(*rank, std::move(model), TrainerOptionsFor(options, nullptr)));
  if (!options.teacher.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> teacher, LoadTeacher(*rank, options));
    ZEROTH_RETURN_IF_ERROR(trainer->SetTeacher(std::move(teacher)));
  }
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(1));
  device->allocator().ResetPeaks();
  Batch batch;
  batch.batch = options.batch_size;
  batch.seq = options.seq_len;
  for (int64_t i = 0; i < batch.batch * batch.seq; ++i) {
    batch.inputs.push_back(static_cast<int32_t>(i % tokens));
    batch.targets.push_back(static_cast<int32_t>((i + 1) % tokens));
  }
  const std::vector<Batch> batches(static_cast<size_t>(options.grad_accum), batch);
  for (int step = 0; step < 3; ++step) {
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batches, 1e-4).status());
  }
  if (world.rank() == 0) stats = device->allocator().stats();
  return absl::OkStatus();
}

TrainOptions OptionsOf(const std::string& model, int ranks) {
  TrainOptions options;
  options.model = model;
  options.world_size = ranks;
  options.threads_per_rank = 1;
  options.batch_size = 2;
  options.seq_len = 64;
  return options;
}

absl::StatusOr<Plan> PlanOf(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, BuildModel(options));
  return PlanRun(options, SomeCpu(), std::move(model));
}

// `of_run` may name files that the plan does without. Only their formats are used; no weights are
// read.
void ExpectAsMeasured(const TrainOptions& options, const TrainOptions& of_run) {
  MemoryStats measured;
  const absl::Status run = RunLocalRanks(
      options.world_size, [&](Communicator& world) { return RunRank(of_run, world, measured); });
  ASSERT_TRUE(run.ok()) << run;
  const absl::StatusOr<Plan> plan = PlanOf(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto peak = static_cast<double>(measured.total.peak_bytes);
  EXPECT_NEAR(static_cast<double>(plan->memory_peak_bytes), peak, 0.01 * peak)
      << PlanText(*plan, options, SomeCpu());
  int64_t sum = 0;
  for (size_t i = 0; i < plan->memory.size(); ++i) {
    sum += plan->memory[i];
    EXPECT_LE(plan->memory[i], measured.categories[i].peak_bytes)
        << MemoryCategoryName(static_cast<MemoryCategory>(i));
  }
  EXPECT_EQ(sum, plan->memory_peak_bytes);
}

void ExpectAsMeasured(const TrainOptions& options) { ExpectAsMeasured(options, options); }

class PlanMemoryTest : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

TEST_P(PlanMemoryTest, IsTheRunsOwn) {
  TrainOptions options = OptionsOf(std::get<0>(GetParam()), std::get<2>(GetParam()));
  options.strategy = std::get<1>(GetParam());
  if (options.strategy == "hybrid_shard") options.shard_size = 2;
  ExpectAsMeasured(options);
}

INSTANTIATE_TEST_SUITE_P(EveryStrategy, PlanMemoryTest,
                         testing::Combine(testing::Values("gpt2_nano", "llama_tiny", kMoe),
                                          testing::Values("no_shard", "shard_optimizer",
                                                          "shard_grad_op", "full_shard",
                                                          "hybrid_shard"),
                                          testing::Values(2, 4)),
                         [](const auto& test) {
                           return absl::StrCat(std::get<0>(test.param), "_",
                                               std::get<1>(test.param), "_",
                                               std::get<2>(test.param));
                         });

TEST(PlanMemoryOfLeversTest, FrozenWeightsInFewBits) {
  for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      TrainOptions options = OptionsOf("llama_tiny", 4);
      options.strategy = strategy;
      options.shard_size = options.strategy == "hybrid_shard" ? 2 : 0;
      options.param_dtype = dtype;
      options.lora_rank = 4;
      options.base_dtype = BaseDtype::kInt8;
      SCOPED_TRACE(absl::StrCat(strategy, " ", DTypeName(dtype)));
      ExpectAsMeasured(options);
      for (const char* model : {kLlama, kWideMoe}) {
        options.model = model;
        for (const BaseDtype base : {BaseDtype::kNf4, BaseDtype::kGguf}) {
          options.base_dtype = base;
          SCOPED_TRACE(absl::StrCat(model, " ", OptionText("base_dtype", options)));
          ExpectAsMeasured(options);
        }
      }
    }
  }
}

TEST(PlanMemoryOfLeversTest, Mxfp4BeforeTheDownload) {
  const std::string files = "tests/testdata/gpt_oss_experts/mxfp4";
  for (const char* strategy : {"no_shard", "full_shard"}) {
    TrainOptions options = OptionsOf(files + "/config.json", 2);
    options.strategy = strategy;
    options.seq_len = 32;
    options.lora_rank = 4;
    options.base_dtype = BaseDtype::kMxfp4;
    TrainOptions of_run = options;
    of_run.init_from = files;
    SCOPED_TRACE(strategy);
    ExpectAsMeasured(options, of_run);
  }
}

// For 20B the size is "total_size" of the published model.safetensors.index.json. For 120B it is
// that of the model card (arXiv:2508.10925, Table 1, checkpoint size), in GiB to one decimal.
TEST(PlanMemoryOfLeversTest, GptOssAsPublished) {
  constexpr double kGiB = 1 << 30;
  for (const auto& [model, size, tolerance] :
       {std::tuple("gpt_oss_20b", 13761264768.0, 0.001 * 13761264768.0),
        std::tuple("gpt_oss_120b", 60.8 * kGiB, 0.05 * kGiB)}) {
    TrainOptions options = OptionsOf(model, 1);
    options.strategy = "no_shard";
    options.param_dtype = options.master_dtype = DType::kBFloat16;
    options.lora_rank = 1;
    options.lora_targets = "q_proj";
    options.base_dtype = BaseDtype::kMxfp4;
    const absl::StatusOr<Plan> plan = PlanOf(options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto parameters =
        static_cast<double>(plan->memory[static_cast<size_t>(MemoryCategory::kParameters)]);
    EXPECT_NEAR(parameters, size, tolerance) << model;
  }
}

TEST(PlanMemoryOfLeversTest, MicroBatches) {
  for (const GradSync sync : {GradSync::kEvery, GradSync::kLast}) {
    TrainOptions options = OptionsOf("gpt2_nano", 2);
    options.grad_accum = 3;
    options.grad_sync = sync;
    ExpectAsMeasured(options);
  }
}

TEST(PlanMemoryOfLeversTest, ActivationCheckpointing) {
  for (const char* const model : {"gpt2_nano", "llama_tiny"}) {
    for (const ActivationCheckpointing what :
         {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
          ActivationCheckpointing::kAttention, ActivationCheckpointing::kMlp,
          ActivationCheckpointing::kElementwise}) {
      TrainOptions options = OptionsOf(model, 2);
      options.activation_checkpointing = what;
      ExpectAsMeasured(options);
    }
  }
}

TEST(PlanMemoryOfLeversTest, BalancedExperts) {
  for (const ActivationCheckpointing what :
       {ActivationCheckpointing::kNone, ActivationCheckpointing::kBlock,
        ActivationCheckpointing::kSelective, ActivationCheckpointing::kElementwise}) {
    TrainOptions options = OptionsOf(kBalancedMoe, 2);
    options.activation_checkpointing = what;
    ExpectAsMeasured(options);
  }
}

TEST(PlanMemoryOfLeversTest, AdaptersOfExperts) {
  for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
    for (const ActivationCheckpointing what :
         {ActivationCheckpointing::kNone, ActivationCheckpointing::kBlock}) {
      TrainOptions options = OptionsOf(kMoe, 2);
      options.strategy = strategy;
      options.activation_checkpointing = what;
      options.lora_rank = 4;
      ExpectAsMeasured(options);
    }
  }
}

TrainOptions OptionsWithTeacher(const std::string& teacher) {
  TrainOptions options = OptionsOf(kStudent, 2);
  options.strategy = "full_shard";
  options.objective = Objective::kDistill;
  options.teacher = teacher;
  return options;
}

TEST(PlanMemoryOfLeversTest, ATeacher) {
  for (const char* strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(absl::StrCat(strategy, " ", DTypeName(dtype)));
      TrainOptions options = OptionsWithTeacher("tests/testdata/mistral_tiny");
      options.strategy = strategy;
      options.param_dtype = dtype;
      ExpectAsMeasured(options);
    }
  }
  TrainOptions options = OptionsWithTeacher("tests/testdata/mistral_tiny");
  options.strategy = "hybrid_shard";
  options.shard_size = 1;
  options.shard_optimizer_over_world = true;
  ExpectAsMeasured(options);
}

// A run accepts a GGUF file, the text model inside one of text and images, and experts. So must a
// plan.
TEST(PlanMemoryOfLeversTest, ATeacherOfEachForm) {
  const TemporaryDirectory directory;
  const std::string gguf = directory.File("teacher.gguf");
  const absl::StatusOr<HfDirectory> llama = HfDirectory::Open("tests/testdata/llama_tiny");
  ASSERT_TRUE(llama.ok()) << llama.status();
  GgufExportOptions no_vocabulary;
  no_vocabulary.vocabulary = GgufVocabularySource::kNone;
  const absl::Status written = ConvertHfToGguf(*llama, gguf, no_vocabulary);
  ASSERT_TRUE(written.ok()) << written;
  for (const std::string& teacher : {gguf, std::string("tests/testdata/gemma3_vision_tiny"),
                                     std::string("tests/testdata/qwen3_moe_tiny")}) {
    SCOPED_TRACE(teacher);
    ExpectAsMeasured(OptionsWithTeacher(teacher));
  }
  TrainOptions options = OptionsWithTeacher("tests/testdata/qwen3_moe_tiny");
  options.param_dtype = DType::kBFloat16;
  std::vector<double> bytes;
  for (const RouterDtype dtype : {RouterDtype::kParam, RouterDtype::kFp32}) {
    options.router_dtype = dtype;
    ExpectAsMeasured(options);
    const absl::StatusOr<Plan> plan = PlanOf(options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    bytes.push_back(0);
    for (const auto& [operation, cost] : plan->operations) bytes.back() += cost.bytes;
  }
  EXPECT_GT(bytes[1], bytes[0]);  // the student has no router

  options = OptionsWithTeacher(directory.File("none"));
  const absl::Status missing = PlanOf(options).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_NE(missing.message().find("--teacher="), std::string::npos) << missing;
}

TEST(PlanMemoryOfLeversTest, SixteenBits) {
  TrainOptions options = OptionsOf("llama_tiny", 2);
  options.param_dtype = DType::kFloat16;
  options.reduce_dtype = DType::kFloat16;
  ExpectAsMeasured(options);
}

TEST(PlanMemoryOfLeversTest, Muon) {
  TrainOptions options = OptionsOf("gpt2_nano", 2);
  options.optimizer = "muon";
  ExpectAsMeasured(options);
}

TEST(PlanMemoryOfLeversTest, Offload) {
  TrainOptions options = OptionsOf("gpt2_nano", 2);
  options.offload = "all";
  ExpectAsMeasured(options);
}

TEST(PlanMemoryOfLeversTest, TensorRanks) {
  TrainOptions options = OptionsOf("gpt2_nano", 4);
  options.tensor_parallel = 4;
  options.sequence_parallel = true;
  for (const ActivationCheckpointing what :
       {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
        ActivationCheckpointing::kElementwise}) {
    options.activation_checkpointing = what;
    ExpectAsMeasured(options);
  }
}

// The same for tensor ranks, alone and with data parallelism.
class PlanMemoryOfTensorRanksTest : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(PlanMemoryOfTensorRanksTest, IsTheRunsOwn) {
  for (const char* const strategy : {"no_shard", "full_shard"}) {
    for (const int ranks : {2, 4}) {
      TrainOptions options = OptionsOf(std::get<0>(GetParam()), ranks);
      options.strategy = strategy;
      options.tensor_parallel = 2;
      options.sequence_parallel = std::get<1>(GetParam());
      SCOPED_TRACE(absl::StrCat(strategy, " on ", ranks));
      ExpectAsMeasured(options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PlanMemoryOfTensorRanksTest,
                         testing::Combine(testing::Values("gpt2_nano", "llama_tiny", kOlmo2,
                                                          kBalancedMoe),
                                          testing::Bool()),
                         [](const auto& test) {
                           return absl::StrCat(std::get<0>(test.param),
                                               std::get<1>(test.param) ? "_in_sequence" : "");
                         });

}  // namespace
}  // namespace zeroth
