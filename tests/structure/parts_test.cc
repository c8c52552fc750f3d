// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// If parameters are divided over an axis "tensor", values, norms, updates, checkpoints and exports
// are those of the undivided model, however it is divided and sharded. The references are run
// undivided on one rank, or computed from the initializers.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/api/zeroth.h"

namespace zeroth {
namespace {

constexpr uint64_t kSeed = 11;
constexpr char kTensorAxis[] = "tensor";

using Values = std::map<std::string, std::vector<float>>;

// A column part, a row part, a fused projection whose three sections are each divided, rows that
// divide unevenly, and two parameters that are not divided.
struct Model {
  Parameter column{"column", Shape({6, 8}), Initializer::Normal(1.0f)};
  Parameter row{"row", Shape({8, 6}), Initializer::Normal(1.0f)};
  Parameter fused{"fused", Shape({5, 16}), Initializer::Normal(1.0f)};
  Parameter uneven{"uneven", Shape({7, 3}), Initializer::Normal(1.0f)};
  Parameter norm{"norm", Shape({9}), Initializer::Ones()};
  Parameter embedding{"embedding", Shape({11, 3}), Initializer::Normal(1.0f)};

  absl::Status Divide(int index, int count) {
    ZEROTH_RETURN_IF_ERROR(column.Divide({kTensorAxis, 1, index, count}));
    ZEROTH_RETURN_IF_ERROR(row.Divide({kTensorAxis, 0, index, count}));
    ZEROTH_RETURN_IF_ERROR(fused.Divide({kTensorAxis, 1, index, count, {8, 4, 4}}));
    return uneven.Divide({kTensorAxis, 0, index, count});
  }
  std::vector<UnitSpec> Units() {
    return {{"root", {&embedding}, /*is_root=*/true},
            {"block", {&column, &norm, &row, &fused, &uneven}}};
  }
  std::vector<Parameter*> All() { return {&embedding, &column, &norm, &row, &fused, &uneven}; }
};

// One way to run the model.
struct Layout {
  int world_size = 1;
  int tensor = 1;
  ShardingOptions options = {.strategy = "no_shard"};
};

// The gradient of an element of the undivided parameter, the same on every rank.
float GradientOf(const Parameter& parameter, int64_t element) {
  return static_cast<float>((element * 7 + parameter.name().size() * 3) % 23 - 11) * 0.125f;
}

struct Training {
  Rank& rank;
  Model model;
  std::unique_ptr<ShardedModule> sharded;
  std::unique_ptr<AdamW> optimizer;
  double norm = 0;

  absl::Status Step() {
    TrainingStep step(*sharded);
    for (const bool backward : {false, true}) {
      for (const UnitSpec& unit : model.Units()) {
        ZEROTH_ASSIGN_OR_RETURN(UnitPass pass,
                                backward ? step.Backward(unit.name) : step.Forward(unit.name));
        for (Parameter* parameter : unit.parameters) {
          if (!backward) continue;
          ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, pass.Gradient(*parameter));
          for (const ElementRun& run : parameter->GlobalRuns(0, parameter->numel())) {
            for (int64_t i = 0; i < run.numel; ++i) {
              gradient.data<float>()[run.begin + i] = GradientOf(*parameter, run.global_begin + i);
            }
          }
        }
        ZEROTH_RETURN_IF_ERROR(pass.End());
      }
    }
    ZEROTH_RETURN_IF_ERROR(step.FinishBackward());
    ZEROTH_RETURN_IF_ERROR(step.Update(*optimizer, {.clip_grad_norm = 0.5}));
    norm = step.grad_norm();
    return absl::OkStatus();
  }
};

// The final parameters, as an export visits them on all ranks.
struct Result {
  Values values;
  double norm = 0;
};

Result RunModel(const Layout& layout, const std::function<absl::Status(Training&)>& body) {
  std::vector<Result> results(static_cast<size_t>(layout.world_size));
  RunOptions options;
  options.launch.world_size = layout.world_size;
  const absl::Status status = RunRanks(options, [&](Rank& rank) -> absl::Status {
    Training run{rank, {}, nullptr, nullptr};
    ShardingOptions sharding = layout.options;
    if (layout.tensor > 1) {
      sharding.inner_axes = {{kTensorAxis, layout.tensor}};
      ZEROTH_RETURN_IF_ERROR(run.model.Divide(rank.index() % layout.tensor, layout.tensor));
    }
    ZEROTH_ASSIGN_OR_RETURN(run.sharded, FullyShard(rank, run.model.Units(), sharding, kSeed));
    ZEROTH_ASSIGN_OR_RETURN(run.optimizer, AdamW::Create(*run.sharded, {.lr = 1e-2}));
    ZEROTH_RETURN_IF_ERROR(body(run));
    Result& result = results[static_cast<size_t>(rank.index())];
    result.norm = run.norm;
    return run.sharded->sharding().VisitFull(
        [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
          EXPECT_EQ(begin, 0);
          EXPECT_EQ(static_cast<int64_t>(values.size()), parameter.global_numel());
          result.values[parameter.name()].assign(values.begin(), values.end());
          return absl::OkStatus();
        });
  });
  EXPECT_TRUE(status.ok()) << status;
  for (const Result& other : results) {
    EXPECT_EQ(other.values, results[0].values);
    EXPECT_EQ(other.norm, results[0].norm);
  }
  return results[0];
}

std::vector<Layout> DividedLayouts() {
  std::vector<Layout> layouts;
  for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    layouts.push_back({4, 2, {.strategy = strategy}});
  }
  layouts.push_back({2, 2, {.strategy = "full_shard"}});
  layouts.push_back({6, 2, {.strategy = "full_shard", .min_shard_numel = 10}});
  layouts.push_back({3, 3, {.strategy = "full_shard"}});
  layouts.push_back({4, 2, {.strategy = "full_shard", .layout = LayoutKind::kRows}});
  layouts.push_back({8, 2, {.strategy = "hybrid_shard", .strategy_options = {.shard_size = 2}}});
  layouts.push_back(layouts.back());
  layouts.back().options.strategy_options.shard_optimizer_over_world = true;
  layouts.push_back({4, 2, {.strategy = "full_shard"}});
  layouts.back().options.offload.parameters = true;
  layouts.back().options.offload.gradients = true;
  layouts.back().options.offload.optimizer = true;
  return layouts;
}

std::string Name(const Layout& layout) {
  return layout.options.strategy + " on " + std::to_string(layout.world_size) + ", tensor " +
         std::to_string(layout.tensor);
}

TEST(PartsTest, InitialValuesAreThoseOfTheUndividedModel) {
  Model undivided;
  Values expected;
  for (Parameter* parameter : undivided.All()) {
    std::vector<float>& values = expected[parameter->name()];
    values.resize(static_cast<size_t>(parameter->numel()));
    parameter->initializer().Fill(kSeed, parameter->name(), 0, absl::MakeSpan(values));
  }
  for (const Layout& layout : DividedLayouts()) {
    const Result found = RunModel(layout, [&](Training& run) {
      // The elements that the rank owns.
      return run.sharded->sharding().VisitShards(
          [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
            const std::vector<float>& whole = expected.at(parameter.name());
            EXPECT_TRUE(std::equal(values.begin(), values.end(), whole.begin() + begin))
                << parameter.name() << " from " << begin;
            return absl::OkStatus();
          });
    });
    EXPECT_EQ(found.values, expected) << Name(layout);
  }
}

// With clipping: every element counts once in the norm, divided or not.
TEST(PartsTest, TrainsToTheBitsOfTheUndividedModel) {
  const auto train = [](Training& run) -> absl::Status {
    for (int i = 0; i < 3; ++i) ZEROTH_RETURN_IF_ERROR(run.Step());
    return absl::OkStatus();
  };
  const Result expected = RunModel({}, train);
  EXPECT_GT(expected.norm, 0.5) << "nothing is clipped";
  for (const Layout& layout : DividedLayouts()) {
    const bool rounds = layout.world_size / layout.tensor == 3;
    if (rounds) continue;  // the mean of three equal numbers
    const Result found = RunModel(layout, train);
    EXPECT_EQ(found.values, expected.values) << Name(layout);
    EXPECT_EQ(found.norm, expected.norm) << Name(layout);
  }
}

// Values and moments: undivided to divided, divided to undivided, and from one division to another.
TEST(PartsTest, CheckpointsAreOfTheUndividedModel) {
  const Layout undivided;
  const Layout alone = {2, 1, {.strategy = "full_shard"}};
  const auto two_steps = [](Training& run) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(run.Step());
    return run.Step();
  };
  const Result expected = RunModel(undivided, two_steps);
  std::vector<Layout> layouts = DividedLayouts();
  layouts.insert(layouts.begin(), undivided);
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (layouts[i].world_size / layouts[i].tensor == 3) continue;
    const std::string out = testing::TempDir() + "/parts_" + std::to_string(i);
    RunModel(layouts[i], [&](Training& run) -> absl::Status {
      ZEROTH_RETURN_IF_ERROR(run.Step());
      return run.sharded->Save(out, run.optimizer.get());
    });
    for (const Layout& other : {undivided, alone, layouts[(i + 1) % layouts.size()]}) {
      if (other.world_size / other.tensor == 3) continue;
      const Result found = RunModel(other, [&](Training& run) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(run.sharded->Load(out, run.optimizer.get()));
        return run.Step();
      });
      EXPECT_EQ(found.values, expected.values) << Name(layouts[i]) << " to " << Name(other);
      EXPECT_EQ(found.norm, expected.norm);
    }
  }
}

TEST(PartsTest, PartsThatDoNotFitTheMeshAreRefused) {
  struct Case {
    ParameterPart part;
    std::vector<MeshAxis> inner_axes;
    const char* words;
  };
  const std::vector<Case> cases = {
      {{"experts", 0, 0, 1}, {{kTensorAxis, 1}}, "unknown axis 'experts'"},
      {{kShardAxis, 0, 0, 1}, {}, "over which units are"},
      {{kTensorAxis, 0, 0, 2},
       {{kTensorAxis, 1}},
       "this is part 0 of 2, but this rank is 0 of 1 on that axis"},
      {{kTensorAxis, 0, 0, 1}, {{kTensorAxis, 3}}, "3 ranks, which do not divide the 2"},
  };
  for (const Case& c : cases) {
    RunOptions options;
    options.launch.world_size = 2;
    const absl::Status status = RunRanks(options, [&](Rank& rank) -> absl::Status {
      Parameter parameter("weight", Shape({6, 6}));
      ZEROTH_RETURN_IF_ERROR(parameter.Divide(c.part));
      ShardingOptions sharding;
      sharding.inner_axes = c.inner_axes;
      const absl::Status refused = FullyShard(rank, {{"unit", {&parameter}}}, sharding).status();
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      EXPECT_TRUE(absl::StrContains(refused.message(), c.words)) << refused;
      return rank.world().status();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// Parts that end within a block of 8-bit moments have moments in fp32, or are refused.
TEST(PartsTest, PartsThatCutBlocksNeedFloat32Moments) {
  RunOptions options;
  options.launch.world_size = 2;
  const absl::Status status = RunRanks(options, [&](Rank& rank) -> absl::Status {
    Parameter sinks("sinks", Shape({64}));
    Parameter rows("rows", Shape({4, 128}));
    for (Parameter* parameter : {&sinks, &rows}) {
      ZEROTH_RETURN_IF_ERROR(parameter->Divide({kTensorAxis, 0, rank.index(), 2}));
    }
    ShardingOptions sharding;
    sharding.inner_axes = {{kTensorAxis, 2}};
    sharding.block_numel = RequiredBlockNumel(DType::kUInt8);
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardedModule> sharded,
                            FullyShard(rank, {{"unit", {&sinks, &rows}}}, sharding));
    AdamWOptions adamw{.state_dtype = DType::kUInt8, .min_8bit_numel = 64};
    const absl::Status refused = AdamW::Create(*sharded, adamw).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    for (const char* words : {"AdamW: 8-bit moments", "'sinks' of shape [64]",
                              "part 0 has elements 0 to 32; expected multiples of 128"}) {
      EXPECT_TRUE(absl::StrContains(refused.message(), words)) << refused;
    }
    adamw.min_8bit_numel = 65;
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<AdamW> made, AdamW::Create(*sharded, adamw));
    EXPECT_EQ(made->MemoryBytes(), 32 * 8 + 256 * 2 + 2 * 2 * 4);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Every rank gets the same answer: of three parts of 1472 elements, the last begins and ends with a
// block of 128, and the others do not.
TEST(PartsTest, WholeBlocksAreExpectedOfEveryPart) {
  struct Case {
    Shape shape;
    int dim;
    std::vector<int64_t> sections;
    bool whole;
  };
  const std::vector<Case> cases = {
      {Shape({4416}), 0, {}, false},        {Shape({384}), 0, {}, true},
      {Shape({300}), 0, {}, false},         {Shape({2, 384}), 1, {}, true},
      {Shape({2, 300}), 1, {}, false},      {Shape({6, 64}), 0, {}, true},
      {Shape({1152}), 0, {768, 384}, true}, {Shape({1152}), 0, {576, 576}, false},
      {Shape({5, 128}), 0, {}, true},       {Shape({0, 3}), 1, {}, true},
      {Shape({3, 100}), 0, {}, false},
  };
  for (const Case& c : cases) {
    for (int index = 0; index < 3; ++index) {
      Parameter parameter("weight", c.shape);
      ASSERT_TRUE(parameter.Divide({kTensorAxis, c.dim, index, 3, c.sections}).ok());
      const absl::Status status = ExpectWholeBlocks(parameter, 128);
      EXPECT_EQ(status.ok(), c.whole) << c.shape.ToString() << ", part " << index << ": " << status;
      EXPECT_TRUE(ExpectWholeBlocks(parameter, 1).ok());
    }
  }
  const Parameter undivided("weight", Shape({100}));
  EXPECT_TRUE(ExpectWholeBlocks(undivided, 128).ok());
  Parameter one_part("weight", Shape({100}));
  ASSERT_TRUE(one_part.Divide({kTensorAxis, 0, 0, 1}).ok());
  EXPECT_TRUE(ExpectWholeBlocks(one_part, 128).ok());
}

TEST(PartsTest, AParameterIsDividedOnce) {
  Parameter parameter("weight", Shape({6, 6}));
  EXPECT_TRUE(absl::IsInvalidArgument(parameter.Divide({kTensorAxis, 2, 0, 2})));
  EXPECT_EQ(parameter.shape(), Shape({6, 6}));
  ASSERT_TRUE(parameter.Divide({kTensorAxis, 0, 1, 2}).ok());
  EXPECT_EQ(parameter.shape(), Shape({3, 6}));
  EXPECT_EQ(parameter.global_shape(), Shape({6, 6}));
  EXPECT_TRUE(absl::IsFailedPrecondition(parameter.Divide({kTensorAxis, 0, 1, 2})));
}

}  // namespace
}  // namespace zeroth
