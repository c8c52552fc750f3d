// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/unit.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

using testing::Each;
using testing::HasSubstr;

class UnitTest : public testing::Test {
 protected:
  std::unique_ptr<Unit> Make(int shard_count, int shard_rank) {
    return *Unit::Create({"h.3", {&weight_, &frozen_, &empty_, &scalar_}}, 0, {shard_count, 0},
                         shard_rank, *device_);
  }
  // Does what a strategy does before BeginGather.
  void GiveFullBuffers(Unit& unit) {
    for (int i = 0; i < unit.segment_count(); ++i) {
      unit.segment(i).full = *Tensor::Zeros(*device_, Shape({unit.segment_layout(i).numel}),
                                            DType::kFloat32, MemoryCategory::kGatheredParameters);
    }
  }
  void GiveGradientBuffers(Unit& unit) {
    for (int i = 0; i < unit.segment_count(); ++i) {
      if (!unit.segment_layout(i).trainable) continue;
      unit.segment(i).grad = *Tensor::Zeros(*device_, Shape({unit.segment_layout(i).numel}),
                                            DType::kFloat32, MemoryCategory::kGradients);
      unit.segment(i).grad_shard =
          *Tensor::Zeros(*device_, Shape({unit.segment_layout(i).shard_numel}), DType::kFloat32,
                         MemoryCategory::kGradients);
    }
  }
  void SetUp() override { frozen_.set_requires_grad(false); }

  std::shared_ptr<Device> device_ = *DeviceRegistry::Create("cpu", DeviceOptions());
  Parameter weight_{"weight", Shape({3, 5})};
  Parameter frozen_{"frozen", Shape({4})};
  Parameter empty_{"empty", Shape({0, 2})};
  Parameter scalar_{"scalar", Shape({})};
};

TEST_F(UnitTest, HoldsZeroedShardsOnly) {
  const auto unit = Make(2, 1);
  EXPECT_EQ(unit->segment_count(), 2);
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> values = unit->segment(i).shard.tensor().ToHost<float>().value();
    EXPECT_THAT(values, Each(0.0f));
    EXPECT_FALSE(unit->segment(i).full.defined());
    EXPECT_FALSE(unit->segment(i).grad_shard.defined());
  }
  EXPECT_EQ(unit->total_numel(), 15 + 4 + 0 + 1);
  // 17 elements with the gap: 9 and 8; of the frozen ones 2 and 2.
  EXPECT_EQ(unit->local_numel(), 15 - 9 + 1 + 2);
  EXPECT_EQ(Make(2, 0)->local_numel(), 9 + 2);
  EXPECT_TRUE(unit->takes_gradient(0));
  EXPECT_FALSE(unit->takes_gradient(1));
  EXPECT_TRUE(unit->has_trainable());
}

TEST_F(UnitTest, ParametersAreVisibleOnlyWhileGathered) {
  const auto unit = Make(2, 0);
  GiveFullBuffers(*unit);
  ASSERT_TRUE(unit->BeginGather(nullptr).ok());
  EXPECT_FALSE(weight_.data().defined());
  ASSERT_TRUE(unit->FinishGather().ok());
  EXPECT_EQ(weight_.data().shape(), Shape({3, 5}));
  EXPECT_EQ(empty_.data().shape(), Shape({0, 2}));
  EXPECT_EQ(scalar_.data().numel(), 1);
  EXPECT_EQ(weight_.data().raw_data(), unit->segment(0).full.raw_data());
  EXPECT_EQ(frozen_.data().raw_data(), unit->segment(1).full.raw_data());
  ASSERT_TRUE(unit->MarkSharded().ok());
  for (Parameter* parameter : unit->parameters()) EXPECT_FALSE(parameter->data().defined());
  EXPECT_EQ(device_->allocator().stats()[MemoryCategory::kGatheredParameters].current_bytes, 0);
}

TEST_F(UnitTest, GradientsAreVisibleOnlyWhileFull) {
  const auto unit = Make(2, 0);
  GiveGradientBuffers(*unit);
  EXPECT_FALSE(unit->GradientShardView(unit->PieceOf(0)).defined());
  ASSERT_TRUE(unit->BeginGradients().ok());
  EXPECT_EQ(weight_.grad().raw_data(), unit->segment(0).grad.raw_data());
  EXPECT_FALSE(frozen_.grad().defined());
  EXPECT_FALSE(weight_.has_gradient());
  EXPECT_FALSE(unit->GradientShardView(unit->PieceOf(0)).defined());
  ASSERT_TRUE(unit->MarkReduced(nullptr).ok());
  EXPECT_FALSE(weight_.grad().defined());
  EXPECT_EQ(unit->GradientShardView(unit->PieceOf(0)).numel(), 9);
  EXPECT_FALSE(unit->GradientShardView(unit->PieceOf(1)).defined()) << "it is frozen";
  EXPECT_TRUE(unit->ForgetGradients().ok());
  EXPECT_EQ(unit->gradient_state(), GradientState::kNone);
  EXPECT_EQ(device_->allocator().stats()[MemoryCategory::kGradients].current_bytes, 0);
  EXPECT_FALSE(unit->GradientShardView(unit->PieceOf(0)).defined());
}

TEST_F(UnitTest, WrongTransitionsSayWhatWasExpected) {
  const auto unit = Make(2, 0);
  const auto expect_error = [](const absl::Status& status, const std::string& attempt,
                               const std::string& state, const std::string& expected) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    for (const std::string& part :
         {std::string("unit 'h.3'"), attempt, state, "expected " + expected}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  };
  expect_error(unit->FinishGather(), "use gathered parameters", "sharded", "gathering");
  expect_error(unit->MarkSharded(), "reshard", "sharded", "gathered");
  expect_error(unit->MarkReduced(nullptr), "reduce gradients", "'none'", "'full'");
  GiveFullBuffers(*unit);
  ASSERT_TRUE(unit->BeginGather(nullptr).ok());
  expect_error(unit->BeginGather(nullptr), "gather", "gathering", "sharded");
  expect_error(unit->MarkSharded(), "reshard", "gathering", "gathered");
  GiveGradientBuffers(*unit);
  ASSERT_TRUE(unit->BeginGradients().ok());
  expect_error(unit->BeginGradients(), "begin gradients", "'full'", "'none'");
}

TEST_F(UnitTest, AbandonEndsEveryState) {
  const auto unit = Make(2, 0);
  GiveFullBuffers(*unit);
  GiveGradientBuffers(*unit);
  ASSERT_TRUE(unit->BeginGather(nullptr).ok());
  ASSERT_TRUE(unit->FinishGather().ok());
  ASSERT_TRUE(unit->BeginGradients().ok());
  unit->Abandon();
  EXPECT_EQ(unit->state(), UnitState::kSharded);
  EXPECT_EQ(unit->gradient_state(), GradientState::kNone);
  EXPECT_FALSE(weight_.data().defined());
  EXPECT_FALSE(weight_.grad().defined());
  EXPECT_FALSE(unit->segment(0).full.defined());
  EXPECT_FALSE(unit->segment(0).grad.defined());
}

TEST_F(UnitTest, OneShardIsTheFullBuffer) {
  const auto unit = Make(1, 0);
  for (int i = 0; i < unit->segment_count(); ++i) EXPECT_TRUE(unit->is_replicated(i));
  EXPECT_EQ(unit->local_numel(), unit->total_numel());
}

TEST_F(UnitTest, TakesItsViewsWithItWhenItGoes) {
  {
    const auto unit = Make(2, 0);
    GiveFullBuffers(*unit);
    ASSERT_TRUE(unit->BeginGather(nullptr).ok());
    ASSERT_TRUE(unit->FinishGather().ok());
  }
  EXPECT_FALSE(weight_.data().defined());
  EXPECT_EQ(device_->allocator().stats().total.current_bytes, 0);
}

}  // namespace
}  // namespace zeroth
