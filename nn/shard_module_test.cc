// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/shard_module.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/linear.h"

namespace zeroth {
namespace {

std::unique_ptr<LanguageModel> MakeModel(const char* preset) {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      ModelRegistry::Create(*PresetConfig(preset));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

int64_t CountElements(const WrapPlan& plan) {
  int64_t count = 0;
  for (const UnitSpec& unit : plan.units) {
    for (const Parameter* parameter : unit.parameters) count += parameter->numel();
  }
  return count;
}

TEST(PlanUnitsTest, ABlockIsAUnitAndTheRestIsTheRoot) {
  const std::unique_ptr<LanguageModel> model = MakeModel("gpt2_nano");
  const WrapPlan plan = PlanUnits(*model, WrapBlocks());
  ASSERT_EQ(plan.units.size(), 5u);
  EXPECT_EQ(plan.units[0].name, "root");
  EXPECT_TRUE(plan.units[0].is_root);
  EXPECT_EQ(plan.units[0].parameters.size(),
            4u);  // both embeddings and the last norm; the tied head once
  EXPECT_EQ(plan.units[1].name, "transformer.h.0");
  EXPECT_EQ(plan.units[4].name, "transformer.h.3");
  EXPECT_EQ(CountElements(plan), model->ParameterCount());
}

TEST(PlanUnitsTest, NothingWrappedIsOneUnit) {
  const std::unique_ptr<LanguageModel> model = MakeModel("llama_tiny");
  const WrapPlan plan = PlanUnits(*model, WrapNothing());
  ASSERT_EQ(plan.units.size(), 1u);
  EXPECT_EQ(CountElements(plan), model->ParameterCount());
}

TEST(PlanUnitsTest, MinimumSizeGathersSmallModulesTogether) {
  const std::unique_ptr<LanguageModel> model = MakeModel("llama_tiny");
  constexpr int64_t kMin = 60000;
  const WrapPlan plan = PlanUnits(*model, WrapByMinNumel(kMin));
  EXPECT_GT(plan.units.size(), 5u);
  EXPECT_EQ(CountElements(plan), model->ParameterCount());
  std::vector<std::string> names;
  for (const UnitSpec& unit : plan.units) {
    EXPECT_EQ(std::count(names.begin(), names.end(), unit.name), 0) << unit.name;
    names.push_back(unit.name);
    int64_t numel = 0;
    for (const Parameter* parameter : unit.parameters) numel += parameter->numel();
    if (!unit.is_root) {
      EXPECT_GE(numel, kMin) << unit.name;
    }
  }
}

TEST(PlanUnitsTest, ACallersPredicateDecides) {
  const std::unique_ptr<LanguageModel> model = MakeModel("gpt2_nano");
  const WrapPlan plan = PlanUnits(*model, [](const Module& module, int64_t) {
    return module.name() == "transformer.h.2" || module.name() == "transformer.h.2.mlp";
  });
  ASSERT_EQ(plan.units.size(), 3u);
  EXPECT_EQ(plan.units[1].name, "transformer.h.2");
  EXPECT_EQ(plan.units[2].name, "transformer.h.2.mlp");
  EXPECT_EQ(plan.units[2].parameters.size(), 4u);
  EXPECT_EQ(CountElements(plan), model->ParameterCount());
}

// One linear layer inside a root without parameters.
class OneLayer : public Module {
 public:
  OneLayer() : Module("model") {
    LinearOptions options;
    options.in = 2;
    options.projections = {{"", 2}};
    options.bias = false;
    layer_ = AddChild(std::make_unique<Linear>("model.layer", options));
  }
  absl::StatusOr<Value> Forward(Context& context, const Value& x) {
    return Hooked(context, [&] { return layer_->Forward(context, x); });
  }

 private:
  Linear* layer_;
};

// Weights 1 to 4 and inputs of 2: the outputs add up to 20, whatever is sharded; backward gathers
// again, and in between nothing keeps the full weight.
absl::Status RunOneLayer(Communicator& world) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                          KernelRegistry::Create(*device, device->compute_stream()));
  OneLayer model;
  const WrapPlan plan = PlanUnits(
      model, [](const Module& module, int64_t) { return module.name() == "model.layer"; });
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Sharding> sharding,
                          Sharding::Create(world, *device, ShardingOptions(), plan.units));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardingHooks> hooks,
                          ShardingHooks::Attach(plan, *sharding));
  ZEROTH_RETURN_IF_ERROR(sharding->Load([](const Parameter&, int64_t begin, absl::Span<float> out) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(begin) + static_cast<float>(i) + 1.0f;
    return absl::OkStatus();
  }));
  Tape tape;
  Context context(*device, *kernels, tape);
  const std::vector<float> twos = {2, 2};
  ZEROTH_ASSIGN_OR_RETURN(const Tensor x,
                          Tensor::FromHost<float>(*device, Shape({1, 2}), absl::MakeConstSpan(twos),
                                                  MemoryCategory::kActivations));
  const auto gathered = [&] {
    return device->allocator().stats()[MemoryCategory::kGatheredParameters].current_bytes;
  };
  ZEROTH_ASSIGN_OR_RETURN(const Value y, model.Forward(context, context.MakeValue(x)));
  EXPECT_EQ(y.data.data<float>()[0] + y.data.data<float>()[1], 20.0f);
  Unit* unit = sharding->FindUnit("model.layer");
  EXPECT_EQ(unit->state(), UnitState::kSharded);
  EXPECT_FALSE(unit->parameters()[0]->data().defined());
  const int64_t gathers =
      sharding->stats().collectives[static_cast<size_t>(CollectiveOp::kAllGather)].calls;
  // Only the set's buffer itself is left, idle; the tape holds no view of it.
  EXPECT_LE(gathered(), 64);
  y.node->grad = x;
  ZEROTH_RETURN_IF_ERROR(tape.Backward());
  EXPECT_EQ(sharding->stats().collectives[static_cast<size_t>(CollectiveOp::kAllGather)].calls,
            gathers + 1);
  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> gradient,
                          unit->GradientShardView(unit->PieceOf(0)).ToHost<float>());
  EXPECT_EQ(gradient, std::vector<float>({4, 4}));  // dy = 2, x = 2
  ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
  EXPECT_EQ(gathered(), 0);
  return absl::OkStatus();
}

TEST(ShardingHooksTest, GatherAroundForwardAndBackward) {
  const absl::Status status = RunLocalRanks(2, RunOneLayer);
  EXPECT_TRUE(status.ok()) << status;
}

// A tied parameter belongs to a unit that contains all of its users: GPT-2's head uses the
// embedding, which is large enough to be a unit by itself.
TEST(PlanUnitsTest, TiedParametersBelongAboveAllOfTheirUsers) {
  const std::unique_ptr<LanguageModel> model = MakeModel("gpt2_nano");
  const WrapPlan plan = PlanUnits(*model, WrapByMinNumel(1));
  EXPECT_GT(plan.units.size(), 17u);
  EXPECT_EQ(CountElements(plan), model->ParameterCount());
  std::vector<std::string> root;
  for (const Parameter* parameter : plan.units[0].parameters) root.push_back(parameter->name());
  EXPECT_EQ(root, (std::vector<std::string>{"transformer.wte.weight", "transformer.wpe.weight"}));
}

// Two layers of one weight, and one of a weight that the root uses, too.
class TiedInside : public Module {
 public:
  TiedInside() : Module("model") {
    auto pair = std::make_unique<Pair>();
    ShareParameter(pair->lonely);
    AddChild(std::move(pair));
  }

 private:
  struct Pair : Module {
    Pair() : Module("model.pair") {
      LinearOptions options;
      options.in = 4;
      options.projections = {{"", 4}};
      options.bias = false;
      Linear* const first = AddChild(std::make_unique<Linear>("model.pair.first", options));
      lonely =
          AddChild(std::make_unique<Linear>("model.pair.second", options))->own_parameters()[0];
      struct Tied : Module {
        explicit Tied(Parameter* weight) : Module("model.pair.tied") { ShareParameter(weight); }
      };
      AddChild(std::make_unique<Tied>(first->own_parameters()[0]));
    }
    Parameter* lonely;
  };
};

TEST(PlanUnitsTest, TheNearestModuleAboveAllUsersTakesATiedParameter) {
  TiedInside model;
  const WrapPlan plan = PlanUnits(model, [](const Module&, int64_t) { return true; });
  ASSERT_EQ(plan.units.size(), 2u);
  ASSERT_EQ(plan.units[0].parameters.size(), 1u);
  EXPECT_EQ(plan.units[0].parameters[0]->name(), "model.pair.second.weight");
  EXPECT_EQ(plan.units[1].name, "model.pair");
  ASSERT_EQ(plan.units[1].parameters.size(), 1u);
  EXPECT_EQ(plan.units[1].parameters[0]->name(), "model.pair.first.weight");
}

// Losses of two steps, with an ascent along the gradient in between.
absl::Status LossesUnder(const WrapPolicy& policy, Communicator& world,
                         std::vector<float>& losses) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                          KernelRegistry::Create(*device, device->compute_stream()));
  const std::unique_ptr<LanguageModel> model = MakeModel("gpt2_nano");
  const WrapPlan plan = PlanUnits(*model, policy);
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Sharding> sharding,
                          Sharding::Create(world, *device, ShardingOptions(), plan.units));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardingHooks> hooks,
                          ShardingHooks::Attach(plan, *sharding));
  ZEROTH_RETURN_IF_ERROR(sharding->Initialize(1));
  Tape tape;
  Context context(*device, *kernels, tape);
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6};
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, Tensor::FromHost<int32_t>(
                                                   *device, Shape({2, 3}), absl::MakeConstSpan(ids),
                                                   MemoryCategory::kActivations));
  for (int step = 0; step < 2; ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, model->Loss(context, tokens, tokens));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> value, loss.data.ToHost<float>());
    losses.push_back(value[0]);
    ZEROTH_RETURN_IF_ERROR(tape.Backward());
    ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
    for (Unit* unit : sharding->units()) {
      for (int i = 0; i < unit->segment_count(); ++i) {
        const Tensor& shard = unit->segment(i).shard.tensor();
        ZEROTH_RETURN_IF_ERROR(
            kernels::Add(*kernels, shard, unit->segment(i).grad_shard.tensor(), shard));
      }
    }
    ZEROTH_RETURN_IF_ERROR(sharding->scheduler().EndStep());
  }
  return absl::OkStatus();
}

TEST(ShardingHooksTest, AUnitForEveryLayerOfATiedModelChangesNoBit) {
  std::vector<float> by_block[2];
  std::vector<float> by_layer[2];
  const absl::Status status = RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
    const auto rank = static_cast<size_t>(world.rank());
    ZEROTH_RETURN_IF_ERROR(LossesUnder(WrapBlocks(), world, by_block[rank]));
    return LossesUnder(WrapByMinNumel(1), world, by_layer[rank]);
  });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(by_block[0].size(), 2u);
  EXPECT_NE(by_block[0][0], by_block[0][1]);
  for (const size_t rank : {0u, 1u}) EXPECT_EQ(by_layer[rank], by_block[rank]);
}

// Hooks whose unit cannot be gathered, or cannot be given up.
class FailingHooks : public ModuleHooks {
 public:
  explicit FailingHooks(bool before) : before_(before) {}
  absl::Status BeforeForward(bool) override { return Fail(before_); }
  absl::Status AfterForward(bool) override { return Fail(!before_); }
  absl::Status BeforeBackward() override { return absl::OkStatus(); }
  absl::Status AfterBackward() override { return absl::OkStatus(); }
  void AfterError() override { ++told_; }
  int told() const { return told_; }

 private:
  static absl::Status Fail(bool fails) {
    return fails ? absl::UnavailableError("no such luck") : absl::OkStatus();
  }

  const bool before_;
  int told_ = 0;
};

TEST(ShardingHooksTest, AnErrorOfAHookIsReported) {
  class Empty : public Module {
   public:
    Empty() : Module("empty") {}
    absl::StatusOr<Value> Forward(Context& context) {
      return Hooked(context, []() -> absl::StatusOr<Value> { return Value(); });
    }
  };
  auto device = DeviceRegistry::Create("cpu", DeviceOptions());
  ASSERT_TRUE(device.ok()) << device.status();
  auto kernels = KernelRegistry::Create(**device, (*device)->compute_stream());
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  for (const bool before : {true, false}) {
    Tape tape;
    tape.set_recording(false);
    Context context(**device, **kernels, tape);
    Empty module;
    FailingHooks hooks(before);
    module.set_hooks(&hooks);
    EXPECT_EQ(module.Forward(context).status(), absl::UnavailableError("no such luck"));
    EXPECT_EQ(hooks.told(), 1);
  }
}

TEST(ShardingHooksTest, APlanWithANullModuleIsRefused) {
  const absl::Status status = RunLocalRanks(1, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    const std::unique_ptr<LanguageModel> model = MakeModel("gpt2_nano");
    WrapPlan plan = PlanUnits(*model, WrapBlocks());
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Sharding> sharding,
                            Sharding::Create(world, *device, ShardingOptions(), plan.units));
    plan.modules[1] = nullptr;
    const absl::Status refused = ShardingHooks::Attach(plan, *sharding).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.ToString().find(sharding->units()[1]->name()), std::string::npos) << refused;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ShardingHooksTest, AFailingForwardLeavesEverythingSharded) {
  const absl::Status status = RunLocalRanks(2, [](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                            KernelRegistry::Create(*device, device->compute_stream()));
    const std::unique_ptr<LanguageModel> model = MakeModel("gpt2_nano");
    const WrapPlan plan = PlanUnits(*model, WrapBlocks());
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Sharding> sharding,
                            Sharding::Create(world, *device, ShardingOptions(), plan.units));
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardingHooks> hooks,
                            ShardingHooks::Attach(plan, *sharding));
    ZEROTH_RETURN_IF_ERROR(sharding->Initialize(1));
    Tape tape;
    Context context(*device, *kernels, tape);
    const std::vector<int32_t> ids = {1, 2, 3, 4};
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor tokens,
        Tensor::FromHost<int32_t>(*device, Shape({1, 4}), absl::MakeConstSpan(ids),
                                  MemoryCategory::kActivations));
    const Tensor targets = tokens.View(0, Shape({1, 3}));
    // The loss refuses targets of another length after all blocks have run, on all ranks alike.
    EXPECT_EQ(model->Loss(context, tokens, targets).status().code(),
              absl::StatusCode::kInvalidArgument);
    tape.Clear();
    for (const Unit* unit : sharding->units()) {
      EXPECT_EQ(unit->state(), UnitState::kSharded) << unit->name();
      EXPECT_EQ(unit->gradient_state(), GradientState::kNone) << unit->name();
    }
    EXPECT_EQ(device->allocator().stats()[MemoryCategory::kGatheredParameters].current_bytes, 0);
    // And the next step works.
    ZEROTH_RETURN_IF_ERROR(model->Loss(context, tokens, tokens).status());
    ZEROTH_RETURN_IF_ERROR(tape.Backward());
    ZEROTH_RETURN_IF_ERROR(sharding->scheduler().FinishBackward());
    return sharding->scheduler().EndStep();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace zeroth
