// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests AdamW with moments in bf16 and in 8 bits, and on bf16 parameters without masters, on real
// ranks.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/optim/adamw.h"
#include "zeroth/optim/testing/ranks.h"

namespace zeroth {
namespace {

using testing::AllLayouts;
using testing::Layout;
using testing::Rank;
using testing::Trained;
using testing::TrainRanks;

// Neither size is a multiple of a block, and the matrix has several blocks.
const Shape kMatrix({37, 19});
const Shape kVector({301});
constexpr int kSteps = 5;

struct Setting {
  DType state_dtype = DType::kFloat32;
  DType master_dtype = DType::kFloat32;
  int64_t min_8bit_numel = 0;

  bool is_low() const { return state_dtype != DType::kFloat32 || master_dtype != DType::kFloat32; }
  Layout Of(Layout layout) const {
    if (master_dtype == DType::kBFloat16) {
      layout.precision = {DType::kBFloat16, DType::kFloat32, DType::kBFloat16};
    }
    layout.block_numel = RequiredBlockNumel(state_dtype);
    return layout;
  }
  AdamWOptions Options() const {
    AdamWOptions options;
    options.state_dtype = state_dtype;
    options.min_8bit_numel = min_8bit_numel;
    options.seed = 11;
    return options;
  }
};

std::string SettingName(const ::testing::TestParamInfo<Setting>& instance) {
  return absl::StrCat(DTypeName(instance.param.state_dtype), "_moments_",
                      DTypeName(instance.param.master_dtype), "_masters",
                      instance.param.min_8bit_numel > 0 ? "_fp32_if_small" : "");
}

std::vector<float> Draw(const std::string& name, int64_t count, float scale = 1.0f) {
  std::vector<float> values(static_cast<size_t>(count));
  CounterRng(3, name).FillNormal(0, scale, absl::MakeSpan(values));
  return values;
}

// Returns the whole parameters after kSteps, each of which may follow a skipped step.
Trained Train(const Layout& layout, const AdamWOptions& options, bool skipped_between = false) {
  return TrainRanks(layout, kMatrix, kVector, [&](Rank& rank) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(rank.Load(Draw("m", kMatrix.numel()), Draw("v", kVector.numel())));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*rank.sharding, *rank.kernels, options));
    for (int step = 0; step < kSteps; ++step) {
      ZEROTH_RETURN_IF_ERROR(rank.Backward(Draw(absl::StrCat("gm", step), kMatrix.numel()),
                                           Draw(absl::StrCat("gv", step), kVector.numel())));
      if (skipped_between) {
        ZEROTH_RETURN_IF_ERROR(adamw->Step(0.01, NAN));
        adamw->ForgetSkippedStep();
      }
      ZEROTH_RETURN_IF_ERROR(adamw->Step(0.01, 0.5));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
    }
    return absl::OkStatus();
  });
}

class LowPrecisionAdamWTest : public ::testing::TestWithParam<Setting> {};

// Each rank feeds the same gradient, whose mean over ranks is itself wherever 1/n is exact.
TEST_P(LowPrecisionAdamWTest, TheSameBitsHoweverItIsSharded) {
  const AdamWOptions options = GetParam().Options();
  const Trained alone = Train(GetParam().Of({"no_shard", 1, 0, 0}), options);
  ASSERT_FALSE(alone.matrix.empty());
  std::vector<Layout> layouts = AllLayouts();
  for (const int world_size : {2, 3, 4}) {
    layouts.push_back({"full_shard", world_size, 0, 400});  // the vector is replicated
  }
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(absl::StrCat(layout.strategy, " at ", layout.world_size, ", whole below ",
                              layout.min_shard_numel));
    const Trained trained = Train(GetParam().Of(layout), options);
    const Trained expected =
        layout.world_size == 3 ? Train(GetParam().Of({"no_shard", 3, 0, 0}), options) : alone;
    EXPECT_TRUE(trained.SameBits(expected));
  }
}

TEST_P(LowPrecisionAdamWTest, OffloadingChangesNoBit) {
  const AdamWOptions options = GetParam().Options();
  for (const int world_size : {1, 2, 3}) {
    Layout layout = GetParam().Of({"full_shard", world_size, 0, 0});
    const Trained in_memory = Train(layout, options);
    layout.offload.optimizer = true;
    layout.offload.parameters = true;
    for (const int64_t chunk_numel : {1, 100, 300}) {
      layout.offload.chunk_numel = chunk_numel;
      EXPECT_TRUE(Train(layout, options).SameBits(in_memory)) << chunk_numel;
    }
  }
}

TEST_P(LowPrecisionAdamWTest, DrawsAreTheSeeds) {
  const Layout layout = GetParam().Of({"full_shard", 2, 0, 0});
  AdamWOptions options = GetParam().Options();
  const Trained first = Train(layout, options);
  EXPECT_TRUE(Train(layout, options).SameBits(first));
  options.seed = 12;
  EXPECT_NE(Train(layout, options).SameBits(first), GetParam().is_low());
}

// Rounding has a small effect.
TEST_P(LowPrecisionAdamWTest, StaysNearFloat) {
  const Trained exact = Train({"full_shard", 2, 0, 0}, AdamWOptions());
  const Trained low = Train(GetParam().Of({"full_shard", 2, 0, 0}), GetParam().Options());
  double squares = 0;
  double moved = 0;
  const std::vector<float> start = Draw("m", kMatrix.numel());
  for (size_t i = 0; i < exact.matrix.size(); ++i) {
    squares += std::pow(exact.matrix[i] - low.matrix[i], 2);
    moved += std::pow(exact.matrix[i] - start[i], 2);
  }
  // Relative to the way moved: half a bf16 step around 1 is a tenth of five steps of 0.01.
  const bool masters = GetParam().master_dtype == DType::kFloat32;
  EXPECT_LT(std::sqrt(squares / moved), masters ? 0.06 : 0.25);
  EXPECT_EQ(low.SameBits(exact), !GetParam().is_low());
}

TEST_P(LowPrecisionAdamWTest, SolvesAQuadratic) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({0, 1}), Shape({256}));
    ZEROTH_RETURN_IF_ERROR(rank.Open(GetParam().Of({"full_shard", 2, 0, 0})));
    std::vector<float> values = Draw("start", 256), empty;
    ZEROTH_RETURN_IF_ERROR(rank.Load({}, values));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, GetParam().Options()));
    const auto loss = [&] {
      double sum = 0;
      for (const float value : values) sum += static_cast<double>(value) * value;
      return sum;
    };
    const double first = loss();
    for (int step = 0; step < 200; ++step) {
      ZEROTH_RETURN_IF_ERROR(rank.Backward({}, values));
      ZEROTH_RETURN_IF_ERROR(adamw->Step(0.1));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
      ZEROTH_RETURN_IF_ERROR(rank.Read(empty, values));
    }
    EXPECT_LT(loss(), 0.01 * first);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Steps of a fortieth of a bf16 step: rounded to nearest, nothing would ever move.
TEST_P(LowPrecisionAdamWTest, SmallStepsAddUp) {
  constexpr int kMany = 1000;
  constexpr double kRate = 1e-4;
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    Rank rank(world, Shape({0, 1}), Shape({512}));
    ZEROTH_RETURN_IF_ERROR(rank.Open(GetParam().Of({"full_shard", 2, 0, 0})));
    ZEROTH_RETURN_IF_ERROR(rank.Load({}, std::vector<float>(512, 1.0f)));
    ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                            AdamW::Create(*rank.sharding, *rank.kernels, GetParam().Options()));
    for (int step = 0; step < kMany; ++step) {
      ZEROTH_RETURN_IF_ERROR(rank.Backward({}, std::vector<float>(512, 0.3f)));
      ZEROTH_RETURN_IF_ERROR(adamw->Step(kRate));
      ZEROTH_RETURN_IF_ERROR(rank.sharding->scheduler().EndStep());
    }
    std::vector<float> values, empty;
    ZEROTH_RETURN_IF_ERROR(rank.Read(empty, values));
    double mean = 0;
    for (const float value : values) mean += static_cast<double>(value) / 512;
    // A constant gradient moves every element by the rate in each step.
    EXPECT_NEAR(1 - mean, kMany * kRate, 0.02 * kMany * kRate);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(LowPrecisionAdamWTest, ASkippedStepChangesNothing) {
  const Layout layout = GetParam().Of({"full_shard", 2, 0, 0});
  const AdamWOptions options = GetParam().Options();
  EXPECT_TRUE(Train(layout, options, /*skipped_between=*/true).SameBits(Train(layout, options)));
}

TEST_P(LowPrecisionAdamWTest, MemoryIsWhatTheTypesTake) {
  constexpr int64_t kNumel = 64 * 128;
  for (const int world_size : {1, 2, 4, 8}) {
    const absl::Status status = RunLocalRanks(world_size, [&](Communicator& world) -> absl::Status {
      Rank rank(world, Shape({64, 128}), Shape({0}));
      ZEROTH_RETURN_IF_ERROR(rank.Open(GetParam().Of({"full_shard", world_size, 0, 0})));
      MemoryStats before = rank.device->allocator().stats();
      ZEROTH_ASSIGN_OR_RETURN(auto adamw,
                              AdamW::Create(*rank.sharding, *rank.kernels, GetParam().Options()));
      MemoryStats after = rank.device->allocator().stats();
      const int64_t own = kNumel / world_size;
      int64_t expected = 8 * own;
      if (GetParam().state_dtype == DType::kBFloat16) expected = 4 * own;
      if (GetParam().state_dtype == DType::kUInt8) expected = 2 * own + 8 * own / kMomentBlock;
      EXPECT_EQ(adamw->MemoryBytes(), expected);
      EXPECT_EQ(after[MemoryCategory::kOptimizer].current_bytes -
                    before[MemoryCategory::kOptimizer].current_bytes,
                expected);
      const bool masters = GetParam().master_dtype == DType::kFloat32;
      EXPECT_EQ(rank.sharding->ShardMemoryBytes(), (masters ? 4 : 2) * own);
      EXPECT_EQ(rank.sharding->ReplicatedMemoryBytes(), (masters ? 4 : 2) * kNumel);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const DType state_dtype : {DType::kFloat32, DType::kBFloat16, DType::kUInt8}) {
    for (const DType master_dtype : {DType::kFloat32, DType::kBFloat16}) {
      settings.push_back({state_dtype, master_dtype});
    }
  }
  for (const DType master_dtype : {DType::kFloat32, DType::kBFloat16}) {
    settings.push_back({DType::kUInt8, master_dtype, kVector.numel() + 1});
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Types, LowPrecisionAdamWTest, ::testing::ValuesIn(Settings()),
                         SettingName);

// The float32 bits of a parameter below the limit, in shards of which it fills a part or none.
TEST(LowPrecisionAdamWTest, SmallParametersHaveMomentsInFloat) {
  for (const int world_size : {1, 2, 4}) {
    const Trained exact = Train({"full_shard", world_size, 0, 0}, Setting().Options());
    Setting setting = {DType::kUInt8, DType::kFloat32, kVector.numel() + 1};
    const Trained low = Train(setting.Of({"full_shard", world_size, 0, 0}), setting.Options());
    EXPECT_EQ(low.vector, exact.vector);
    EXPECT_NE(low.matrix, exact.matrix);
    setting.min_8bit_numel = kVector.numel();
    const Trained lower = Train(setting.Of({"full_shard", world_size, 0, 0}), setting.Options());
    EXPECT_NE(lower.vector, exact.vector);
    EXPECT_EQ(lower.matrix, low.matrix);
  }
}

TEST(LowPrecisionAdamWErrorsTest, ShardsThatCutBlocksAreRefusedByName) {
  const absl::Status status = RunLocalRanks(1, [](Communicator& world) -> absl::Status {
    Rank rank(world, kMatrix, kVector);
    Layout layout;
    layout.block_numel = 64;
    ZEROTH_RETURN_IF_ERROR(rank.Open(layout));
    AdamWOptions options;
    options.state_dtype = DType::kUInt8;
    const absl::Status refused = AdamW::Create(*rank.sharding, *rank.kernels, options).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    for (const char* part : {"unit 'unit'", "multiples of 64", "block_numel to 128"}) {
      EXPECT_NE(refused.ToString().find(part), std::string::npos) << refused;
    }
    options.state_dtype = DType::kFloat16;
    const absl::Status unknown = AdamW::Create(*rank.sharding, *rank.kernels, options).status();
    EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(unknown.ToString().find("state_dtype is fp16"), std::string::npos) << unknown;
    options.state_dtype = DType::kUInt8;
    options.min_8bit_numel = -1;
    const absl::Status negative = AdamW::Create(*rank.sharding, *rank.kernels, options).status();
    EXPECT_EQ(negative.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(negative.ToString().find("min_8bit_numel is -1"), std::string::npos) << negative;
    Rank other(world, kMatrix, kVector);
    layout.block_numel = 0;
    EXPECT_EQ(other.Open(layout).code(), absl::StatusCode::kInvalidArgument);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth
