// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/parameter.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

class ParameterTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  Tensor NewTensor(Shape shape) {
    absl::StatusOr<Tensor> tensor =
        Tensor::Zeros(*device_, std::move(shape), DType::kFloat32, MemoryCategory::kGradients);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return *std::move(tensor);
  }

  std::shared_ptr<Device> device_;
};

TEST_F(ParameterTest, DescribesItself) {
  const Parameter parameter("wte.weight", {3, 4}, Initializer::Ones(), DType::kBFloat16);
  EXPECT_EQ(parameter.name(), "wte.weight");
  EXPECT_EQ(parameter.shape(), Shape({3, 4}));
  EXPECT_EQ(parameter.numel(), 12);
  EXPECT_EQ(parameter.dtype(), DType::kBFloat16);
  EXPECT_TRUE(parameter.requires_grad());
  EXPECT_FALSE(parameter.data().defined());
  EXPECT_FALSE(parameter.grad().defined());
  EXPECT_FALSE(parameter.has_gradient());
}

TEST_F(ParameterTest, DecayFollowsTheRankUnlessOverridden) {
  EXPECT_TRUE(Parameter("w", {2, 2}).decay());
  EXPECT_TRUE(Parameter("w", {1, 1, 1}).decay());
  EXPECT_FALSE(Parameter("b", {2}).decay());
  EXPECT_FALSE(Parameter("s", {}).decay());
  Parameter bias("b", {2});
  bias.set_decay(true);
  EXPECT_TRUE(bias.decay());
  Parameter weight("w", {2, 2});
  weight.set_decay(false);
  EXPECT_FALSE(weight.decay());
}

TEST_F(ParameterTest, FirstContributionOverwritesLaterOnesAccumulate) {
  Parameter parameter("w", {4});
  const Tensor storage = NewTensor({4});
  parameter.set_grad(storage);
  EXPECT_FALSE(parameter.has_gradient());
  auto slot = parameter.TakeGradient();
  ASSERT_TRUE(slot.ok());
  EXPECT_FALSE(slot->accumulate);
  EXPECT_EQ(slot->tensor.raw_data(), storage.raw_data());
  EXPECT_TRUE(parameter.has_gradient());
  slot = parameter.TakeGradient();
  ASSERT_TRUE(slot.ok());
  EXPECT_TRUE(slot->accumulate);

  parameter.set_has_gradient(false);
  EXPECT_FALSE(parameter.TakeGradient()->accumulate);
  parameter.set_has_gradient(true);
  EXPECT_TRUE(parameter.TakeGradient()->accumulate);

  parameter.set_grad(storage);
  EXPECT_FALSE(parameter.has_gradient());
  EXPECT_FALSE(parameter.TakeGradient()->accumulate);
}

TEST_F(ParameterTest, ProviderIsAskedOnlyWhenThereIsNoStorage) {
  Parameter parameter("w", {4});
  int asked = 0;
  parameter.set_gradient_provider([&] {
    ++asked;
    parameter.set_grad(NewTensor({4}));
    return absl::OkStatus();
  });
  EXPECT_FALSE(parameter.TakeGradient()->accumulate);
  EXPECT_TRUE(parameter.TakeGradient()->accumulate);
  EXPECT_EQ(asked, 1);
  parameter.set_grad(Tensor());
  EXPECT_FALSE(parameter.TakeGradient()->accumulate);
  EXPECT_EQ(asked, 2);
}

TEST_F(ParameterTest, FailuresNameTheParameterAndWriteNothing) {
  Parameter parameter("h.3.ln_1.weight", {4});
  EXPECT_EQ(
      parameter.TakeGradient().status(),
      absl::FailedPreconditionError("parameter 'h.3.ln_1.weight' has no storage for its gradient; "
                                    "call set_grad, or put the parameter into a unit"));
  parameter.set_gradient_provider([] { return absl::ResourceExhaustedError("no memory"); });
  EXPECT_EQ(parameter.TakeGradient().status(),
            absl::ResourceExhaustedError(
                "storage for the gradient of parameter 'h.3.ln_1.weight': no memory"));
  EXPECT_FALSE(parameter.has_gradient());
}

TEST_F(ParameterTest, FrozenTakesNoGradientEvenWithStorage) {
  Parameter parameter("frozen", {4});
  parameter.set_requires_grad(false);
  parameter.set_grad(NewTensor({4}));
  EXPECT_EQ(parameter.TakeGradient().status(),
            absl::FailedPreconditionError("parameter 'frozen' is frozen and has no gradient"));
  EXPECT_FALSE(parameter.has_gradient());
  parameter.set_requires_grad(true);
  EXPECT_TRUE(parameter.TakeGradient().ok());
}

TEST_F(ParameterTest, DataIsAViewOfSomebodyElsesStorage) {
  Parameter parameter("w", {2, 3});
  const Tensor flat = NewTensor({10});
  parameter.set_data(flat.View(4, {2, 3}));
  EXPECT_EQ(parameter.data().buffer(), flat.buffer());
  parameter.set_data(Tensor());
  EXPECT_FALSE(parameter.data().defined());
}

using ParameterDeathTest = ParameterTest;

TEST_F(ParameterDeathTest, ProviderThatProvidesNothingAborts) {
  Parameter parameter("w", {4});
  parameter.set_gradient_provider([] { return absl::OkStatus(); });
  EXPECT_DEATH((void)parameter.TakeGradient(), "invariant violated");
}

}  // namespace
}  // namespace zeroth
