// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// LoRA on packed frozen weights (QLoRA) has the bits of LoRA on the same weights unpacked, and the
// same bits under every strategy.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/packing_reader.h"
#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/gguf/gguf_blocks.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/tests/finetuning/tiny_run.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 5;
constexpr int64_t kSteps = 3;

constexpr int kExperts = 3;

// A base: a format, with GGUF that of most weights, and a family.
struct Base {
  PackedFormat format = PackedFormat::kNf4;
  std::string family = "llama";

  bool has_experts() const { return family != "llama"; }
};

// Sizes that two tensor ranks divide evenly: two key and value heads, and widths of an even number
// of the format's blocks.
nlohmann::json Config(const Base& base = {}) {
  const int64_t width = std::max<int64_t>(128, 2 * PackedShape{base.format}.block());
  nlohmann::json config = {
      {"model_type", base.family},   {"vocab_size", 256},
      {"hidden_size", width},        {"intermediate_size", std::max<int64_t>(256, width)},
      {"num_hidden_layers", 2},      {"num_attention_heads", 4},
      {"num_key_value_heads", 2},    {"max_position_embeddings", 64},
      {"rms_norm_eps", 1e-5},        {"rope_theta", 10000.0},
      {"tie_word_embeddings", false}};
  if (!base.has_experts()) return config;
  config["num_experts_per_tok"] = 2;
  config["intermediate_size"] = width;
  if (base.family == "qwen3_moe") {
    config["num_experts"] = kExperts;
    config["moe_intermediate_size"] = width;
    config["head_dim"] = width / 4;
  } else {
    config["num_local_experts"] = kExperts;
  }
  return config;
}

struct PackedRun {
  Base base;
  // The model's configuration.
  nlohmann::json config = Config(base);
  // Instead of packing: weights in full that were packed and restored.
  bool restored = false;
  TinyRanks ranks = {};
  TrainerOptions trainer = {};
};

ModelOptions Options(const Base& base) {
  const PackedFormat format = base.format;
  ModelOptions options;
  options.lora.rank = 3;
  options.lora.alpha = 5;
  if (!IsGgufFormat(format)) {
    options.lora.base_format = format;
    return options;
  }
  // The mix of Q4_K_M files, whose rows may be whole blocks of 256 or not, with one layer that is
  // not quantised.
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<std::string> names = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                      "self_attn.o_proj"};
    for (int expert = 0; expert < (base.has_experts() ? kExperts : 1); ++expert) {
      const std::string mlp =
          base.has_experts() ? absl::StrCat("mlp.experts.", expert, ".") : "mlp.";
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) names.push_back(mlp + name);
    }
    for (const std::string& name : names) {
      const bool is_down = absl::EndsWith(name, "down_proj");
      if (layer == 0 && is_down) continue;
      options.lora.base_formats[absl::StrCat("model.layers.", layer, ".", name, ".weight")] =
          !is_down                        ? format
          : format == PackedFormat::kQ4_K ? PackedFormat::kQ6_K
          : format == PackedFormat::kQ5_0 ? PackedFormat::kQ8_0
                                          : format;
    }
  }
  return options;
}

// How many weights these options pack.
size_t PackedCount(const Base& base) {
  const size_t experts = base.has_experts() ? kExperts : 1;
  return 2 * (4 + 3 * experts) - (IsGgufFormat(base.format) ? experts : 0);
}

// The weights in full; lora_B is not zero, so that all adapters have gradients from the first step.
absl::Status ReadFull(const Parameter& parameter, int64_t begin, absl::Span<float> out) {
  const bool is_b = absl::EndsWith(parameter.name(), ".lora_B");
  (is_b ? Initializer::Normal(0.05f) : parameter.initializer())
      .Fill(kSeed, parameter.name(), begin, out);
  return absl::OkStatus();
}

// Quantises 32 values with the scale that makes the largest a code of 4 or more.
void QuantizeMxfp4(const float* values, uint8_t* block) {
  constexpr std::array<float, 8> kCodes = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[i]));
  const int exponent = std::ilogb(std::max(largest, 1e-30f)) - 2;
  block[0] = static_cast<uint8_t>(exponent + 127);
  for (int i = 0; i < 32; ++i) {
    const float scaled = std::ldexp(std::abs(values[i]), -exponent);
    int code = 0;
    while (code < 7 && scaled > (kCodes[code] + kCodes[code + 1]) / 2) ++code;
    if (values[i] < 0) code += 8;
    uint8_t& both = block[1 + i % 16];
    both = static_cast<uint8_t>(i < 16 ? code : both | code << 4);
  }
}

// Quantises a weight as its GGUF file stores it. Cached by format: the search of scales takes
// longer than the steps.
absl::StatusOr<PackedMatrix> PackAsGguf(const PackedWeight& packed) {
  static std::mutex mutex;
  static auto* const done = new std::map<std::string, PackedMatrix>();
  const std::lock_guard<std::mutex> lock(mutex);
  PackedMatrix& bytes = (*done)[absl::StrCat(packed.codes->name(), packed.weight->global_numel())];
  if (!bytes.codes.empty()) return bytes;
  std::vector<float> values(static_cast<size_t>(packed.shape.rows * packed.shape.cols));
  ZEROTH_RETURN_IF_ERROR(ReadFull(*packed.weight, 0, absl::MakeSpan(values)));
  std::vector<uint8_t> blocks(
      static_cast<size_t>(packed.shape.rows * packed.shape.CodeBytes(packed.shape.cols)));
  if (packed.shape.format == PackedFormat::kMxfp4) {
    for (size_t block = 0; block < values.size() / 32; ++block) {
      QuantizeMxfp4(&values[32 * block], &blocks[17 * block]);
    }
  } else {
    QuantizeBlocks(packed.shape.format == PackedFormat::kQ8_0   ? GgufBlock::kQ8_0
                   : packed.shape.format == PackedFormat::kQ5_0 ? GgufBlock::kQ5_0
                   : packed.shape.format == PackedFormat::kQ4_K ? GgufBlock::kQ4_K
                                                                : GgufBlock::kQ6_K,
                   values, absl::MakeSpan(blocks));
  }
  bytes.codes = std::move(blocks);
  return bytes;
}

// The blocks of a file.
BlocksReader FileBlocks(const Module& model) {
  std::map<std::string, const PackedWeight*> weights;
  for (const PackedWeight* packed : PackedWeights(model)) weights[packed->weight->name()] = packed;
  return
      [weights](const Parameter& weight, int64_t begin, absl::Span<uint8_t> out) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const PackedMatrix bytes, PackAsGguf(*weights.at(weight.name())));
        std::copy_n(bytes.codes.begin() + begin, out.size(), out.begin());
        return absl::OkStatus();
      };
}

// Packs and restores every weight that `model` packs.
absl::StatusOr<std::map<std::string, std::vector<float>>> RestoredWeights(const Module& model) {
  std::map<std::string, std::vector<float>> weights;
  for (const PackedWeight* packed : PackedWeights(model)) {
    const auto read = [&](int64_t begin, absl::Span<float> out) {
      return ReadFull(*packed->weight, begin, out);
    };
    ZEROTH_ASSIGN_OR_RETURN(const PackedMatrix bytes, IsGgufFormat(packed->shape.format)
                                                          ? PackAsGguf(*packed)
                                                          : PackMatrix(packed->shape, read));
    ZEROTH_ASSIGN_OR_RETURN(weights[packed->weight->name()],
                            UnpackMatrix(packed->shape, bytes.codes, bytes.scales));
  }
  return weights;
}

struct Trained {
  std::vector<float> losses;
  std::vector<double> norms;
  NamedValues adapters;
  NamedValues bytes;  // of packed weights
  bool operator==(const Trained&) const = default;
};

absl::Status TrainRank(const PackedRun& setup, Communicator& world, Collector& weights,
                       Trained& trained) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> packed,
                          ModelRegistry::Create(setup.config, Options(setup.base)));
  const std::shared_ptr<const LanguageModel> described = std::move(packed);
  ZEROTH_ASSIGN_OR_RETURN(
      std::unique_ptr<LanguageModel> model,
      ModelRegistry::Create(setup.config,
                            Options(setup.restored ? Base{PackedFormat::kNone} : setup.base)));
  TrainerOptions options = setup.trainer;
  options.sharding.strategy = setup.ranks.strategy;
  options.sharding.strategy_options.shard_size = setup.ranks.shard_size;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  if (setup.restored) {
    ZEROTH_ASSIGN_OR_RETURN(const auto restored, RestoredWeights(*described));
    ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(
        [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
          const auto found = restored.find(parameter.name());
          if (found == restored.end()) return ReadFull(parameter, begin, out);
          std::copy_n(found->second.begin() + begin, out.size(), out.begin());
          return absl::OkStatus();
        }));
  } else {
    ZEROTH_RETURN_IF_ERROR(
        trainer->sharding().Load(PackingReader(described, ReadFull, FileBlocks(*described))));
  }
  DataOptions data_options;
  data_options.vocab_size = 256;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> tokens,
                          OpenData("tests/testdata/llama_tiny/tokens.npy", data_options));
  LoaderOptions loader_options;
  const int tensor = std::max(setup.trainer.tensor.size, 1);
  loader_options.world_size = world.size() / tensor;
  loader_options.rank = world.rank() / tensor;
  // The same global batch at any number of ranks.
  loader_options.batch_size = 4 / loader_options.world_size;
  loader_options.seq_len = 32;
  loader_options.shuffle = false;
  ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(tokens, loader_options));
  for (int64_t step = 0; step < kSteps; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(0));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batch, 1e-2));
    if (world.rank() != 0) continue;
    trained.losses.push_back(result.loss);
    trained.norms.push_back(result.grad_norm);
  }
  return weights.PutWeights(trainer->sharding());
}

absl::StatusOr<Trained> Train(const PackedRun& setup) {
  Trained trained;
  Collector weights;
  ZEROTH_RETURN_IF_ERROR_WITH(
      RunLocalRanks(setup.ranks.world_size,
                    [&](Communicator& world) { return TrainRank(setup, world, weights, trained); }),
      setup.ranks.ToString());
  for (const auto& [name, values] : weights.values()) {
    if (absl::StrContains(name, ".lora_")) trained.adapters[name] = values;
    if (absl::StrContains(name, ".weight_")) trained.bytes[name] = values;
  }
  return trained;
}

class PackedBase : public ::testing::TestWithParam<Base> {};

TEST_P(PackedBase, TrainsAsTheRestoredWeightsInFullDo) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    PackedRun setup{GetParam()};
    setup.trainer.sharding.mixed_precision.param_dtype = dtype;
    const absl::StatusOr<Trained> packed = Train(setup);
    setup.restored = true;
    const absl::StatusOr<Trained> restored = Train(setup);
    ASSERT_TRUE(packed.ok() && restored.ok()) << packed.status() << restored.status();
    EXPECT_EQ(packed->losses, restored->losses) << DTypeName(dtype);
    EXPECT_EQ(packed->norms, restored->norms) << DTypeName(dtype);
    EXPECT_TRUE(packed->adapters == restored->adapters) << DTypeName(dtype);
    // Codes, and scales beside them.
    EXPECT_EQ(packed->bytes.size(),
              PackedCount(GetParam()) * (IsGgufFormat(GetParam().format) ? 1 : 2));
    EXPECT_LT(packed->losses.back(), packed->losses.front() - 0.01f);

    setup.restored = true;
    setup.base.format = PackedFormat::kNone;
    const absl::StatusOr<Trained> full = Train(setup);
    ASSERT_TRUE(full.ok()) << full.status();
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(packed->losses[step], full->losses[step], 0.05f) << step;
    }
  }
}

TEST_P(PackedBase, LayoutsGiveTheSameBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::unique_ptr<Trained> first;
    const auto expect_same = [&](const PackedRun& setup, const std::string& what) {
      const absl::StatusOr<Trained> trained = Train(setup);
      ASSERT_TRUE(trained.ok()) << what << ": " << trained.status();
      if (first == nullptr) first = std::make_unique<Trained>(*trained);
      EXPECT_TRUE(*trained == *first) << what << " " << DTypeName(dtype);
    };
    for (const TinyRanks& ranks : std::vector<TinyRanks>{{"no_shard", 2, 0},
                                                         {"full_shard", 2, 0},
                                                         {"shard_grad_op", 2, 0},
                                                         {"shard_optimizer", 2, 0},
                                                         {"hybrid_shard", 2, 1},
                                                         {"hybrid_shard", 2, 2}}) {
      PackedRun setup{.base = GetParam(), .ranks = ranks};
      setup.trainer.sharding.mixed_precision = {dtype, dtype};
      expect_same(setup, ranks.ToString());
    }
    PackedRun setup{.base = GetParam(), .ranks = {"full_shard", 2, 0}};
    setup.trainer.sharding.mixed_precision = {dtype, dtype};
    setup.trainer.sharding.layout = LayoutKind::kRows;
    expect_same(setup, "rows");
    setup.trainer.sharding.layout = LayoutKind::kFlat;
    setup.trainer.sharding.offload.parameters = true;
    expect_same(setup, "offloaded parameters");
    setup.trainer.sharding.offload.parameters = false;
    setup.trainer.activation_checkpointing = ActivationCheckpointing::kBlock;
    expect_same(setup, "recomputation");
  }
}

// The weights are packed as a whole, so their bytes do not depend on the ranks. Losses are sums
// over batches of other sizes.
TEST_P(PackedBase, RanksPackTheSameBytes) {
  std::unique_ptr<Trained> first;
  for (const TinyRanks& ranks : std::vector<TinyRanks>{{"no_shard", 1, 0},
                                                       {"full_shard", 2, 0},
                                                       {"full_shard", 4, 0},
                                                       {"hybrid_shard", 4, 2},
                                                       {"shard_grad_op", 4, 0}}) {
    const absl::StatusOr<Trained> trained = Train({.base = GetParam(), .ranks = ranks});
    ASSERT_TRUE(trained.ok()) << trained.status();
    if (first == nullptr) first = std::make_unique<Trained>(*trained);
    EXPECT_TRUE(trained->bytes == first->bytes) << ranks.ToString();
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(trained->losses[step], first->losses[step], 1e-5f) << ranks.ToString();
    }
  }
}

TEST_P(PackedBase, TensorRanksGiveTheSameBitsWithFixedPieces) {
  std::unique_ptr<Trained> first;
  for (const int size : {1, 2}) {
    PackedRun setup{.base = GetParam(), .ranks = {"full_shard", 2 * size, 0}};
    setup.trainer.tensor = {size, 2};
    const absl::StatusOr<Trained> trained = Train(setup);
    ASSERT_TRUE(trained.ok()) << trained.status();
    if (first == nullptr) first = std::make_unique<Trained>(*trained);
    EXPECT_TRUE(*trained == *first) << size;
  }
  // And without fixed pieces, where sums have another order.
  PackedRun setup{.base = GetParam(), .ranks = {"full_shard", 4, 0}};
  setup.trainer.tensor = {2, 0, true};
  const absl::StatusOr<Trained> trained = Train(setup);
  ASSERT_TRUE(trained.ok()) << trained.status();
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(trained->losses[step], first->losses[step], 1e-4f) << step;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Base>& info) {
  return absl::StrCat(info.param.family, "_", PackedFormatName(info.param.format));
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedBase,
                         ::testing::Values(Base{PackedFormat::kInt8}, Base{PackedFormat::kNf4},
                                           Base{PackedFormat::kQ8_0}, Base{PackedFormat::kQ4_K},
                                           Base{PackedFormat::kQ5_0}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Experts, PackedBase,
                         ::testing::Values(Base{PackedFormat::kInt8, "qwen3_moe"},
                                           Base{PackedFormat::kNf4, "qwen3_moe"},
                                           Base{PackedFormat::kQ4_K, "qwen3_moe"},
                                           Base{PackedFormat::kNf4, "gpt_oss"},
                                           Base{PackedFormat::kMxfp4, "gpt_oss"}),
                         NameOf);

// Every weight of the blocks' linear layers, and nothing else.
TEST(PackedBaseModel, KeepsTheWeightsOfBlocksInFewBits) {
  const auto model = ModelRegistry::Create(Config(), Options({PackedFormat::kNf4}));
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<const PackedWeight*> packed = PackedWeights(**model);
  EXPECT_EQ(packed.size(), 2u * 7u);
  for (const PackedWeight* weight : packed) {
    EXPECT_EQ(weight->codes->numel(), weight->weight->numel() / 64 * 33);
  }
  const auto plain = ModelRegistry::Create(Config(), Options({PackedFormat::kNone}));
  ASSERT_TRUE(plain.ok()) << plain.status();
  std::vector<std::string> stored;
  std::vector<std::string> expected;
  for (const Parameter* parameter : StoredParameters(**model)) stored.push_back(parameter->name());
  for (const Parameter* parameter : (*plain)->Parameters()) expected.push_back(parameter->name());
  EXPECT_THAT(stored, ::testing::ElementsAreArray(expected));
}

TEST(PackedBaseModel, RefusesWhatDoesNotFit) {
  const auto error = [](const nlohmann::json& config, const ModelOptions& options) {
    return std::string(ModelRegistry::Create(config, options).status().message());
  };
  ModelOptions options = Options({PackedFormat::kNf4});
  nlohmann::json config = Config();
  config["intermediate_size"] = 160;
  EXPECT_THAT(error(config, options), HasSubstr("rows of 160 values cannot be packed as nf4"));
  options.lora.modules_to_save = {"down_proj"};
  options.lora.targets = {"q_proj"};
  EXPECT_THAT(error(Config(), options), HasSubstr("its weight is kept in few bits"));
  options = Options({PackedFormat::kNf4});
  options.lora.dora = true;
  EXPECT_THAT(error(Config(), options), HasSubstr("not of nf4"));
  options = Options({PackedFormat::kInt8});
  options.lora.rank = 0;
  EXPECT_THAT(error(Config(), options), HasSubstr("kept as int8, which are not trained"));

  // 192 inputs are three blocks, which two ranks cannot share.
  config["intermediate_size"] = 192;
  auto model = ModelRegistry::Create(config, Options({PackedFormat::kNf4}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(std::string(DivideModel(**model, {2}, 0).message()),
              HasSubstr("3 blocks of 64 inputs cannot be divided among 2 tensor ranks"));
  // 256 inputs are one block of these.
  const nlohmann::json narrow = Config({PackedFormat::kNf4});
  model = ModelRegistry::Create(narrow, Options({PackedFormat::kQ4_K}));
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("rows of 128 values cannot be packed as q4_k, in blocks of 256"));
}

}  // namespace
}  // namespace zeroth::testing
