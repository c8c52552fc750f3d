// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Every instruction set that this machine has computes the same: the other tests see only the best
// one.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"

#include "zeroth/core/device/device.h"
#include "zeroth/kernels/cpu/attention.h"
#include "zeroth/kernels/cpu/gemm_epilogue.h"
#include "zeroth/kernels/cpu/linear_cross_entropy.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/reference/attention.h"
#include "zeroth/kernels/reference/gemm.h"
#include "zeroth/kernels/reference/linear_cross_entropy.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::cpu {
namespace {

class TargetsTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().DeInit();
    absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", DeviceOptions{});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
    device_->BindThread();
    workspace_ = std::make_unique<Workspace>(device_->allocator());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }

  std::vector<float> RandomNormal(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random_);
    return values;
  }
  Workspace& workspace() { return *workspace_; }

 private:
  std::mt19937_64 random_{1};
  std::shared_ptr<Device> device_;
  std::unique_ptr<Workspace> workspace_;
};

constexpr double kTolerance = 4e-6;

TEST_P(TargetsTest, Attention) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 131, 4, 2, 33}, AttentionShape{2, 70, 2, 2, 64}}) {
    const int64_t out_count = shape.batch * shape.seq * shape.heads * shape.head_dim;
    const std::vector<float> qkv = RandomNormal(shape.batch * shape.seq * shape.packed_dim());
    const std::vector<float> dout = RandomNormal(out_count);
    std::vector<float> out(dout.size());
    std::vector<float> lse(static_cast<size_t>(shape.batch * shape.heads * shape.seq));
    std::vector<float> dqkv(qkv.size());
    ASSERT_TRUE(AttentionForward(shape, qkv.data(), out.data(), lse.data(), workspace()).ok());
    ASSERT_TRUE(AttentionBackward(shape, dout.data(), qkv.data(), out.data(), lse.data(),
                                  dqkv.data(), workspace())
                    .ok());
    const reference::AttentionOutput expected = reference::Attention(shape, ToDouble(qkv));
    ExpectClose(out, expected.out, kTolerance, 0.0, "out");
    ExpectClose(lse, expected.lse, kTolerance, 0.0, "lse");
    ExpectClose(dqkv, reference::AttentionBackward(shape, ToDouble(dout), ToDouble(qkv)),
                kTolerance, 0.0, "dqkv");
  }
}

TEST_P(TargetsTest, LinearCrossEntropy) {
  LinearCrossEntropyCall call;
  call.rows = 5;
  call.dim = 7;
  call.vocab = 2083;
  const std::vector<float> hidden = RandomNormal(call.rows * call.dim);
  const std::vector<float> weight = RandomNormal(call.vocab * call.dim);
  const std::vector<int32_t> targets = {0, kIgnoredTarget, 2082, 1024, 7};
  std::vector<float> loss(1);
  std::vector<float> dhidden(hidden.size());
  std::vector<float> dweight(weight.size());
  call.hidden = hidden.data();
  call.weight = weight.data();
  call.targets = targets.data();
  call.loss = loss.data();
  call.dhidden = dhidden.data();
  call.dweight = dweight.data();
  ASSERT_TRUE(LinearCrossEntropy(call, workspace()).ok());
  const auto expected = reference::LinearCrossEntropy(call.dim, call.vocab, ToDouble(hidden),
                                                      ToDouble(weight), targets);
  ExpectClose(loss, {expected.loss}, 1e-6, 0.0, "loss");
  ExpectClose(dhidden, expected.dhidden, kTolerance, 0.0, "dhidden");
  ExpectClose(dweight, expected.dweight, kTolerance, 0.0, "dweight");
}

TEST_P(TargetsTest, BiasActivation) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kCols = 37;
  const std::vector<float> c = RandomNormal(kRows * kCols);
  const std::vector<float> bias = RandomNormal(kCols);
  for (const Activation activation : {Activation::kNone, Activation::kGelu, Activation::kSilu}) {
    std::vector<double> expected;
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      expected.push_back(
          reference::Activate(activation, static_cast<double>(c[i]) + bias[i % kCols]));
    }
    std::vector<float> actual = c;
    BiasActivation(kRows, kCols, bias.data(), activation, actual.data(), kCols);
    ExpectClose(actual, expected, 4e-7, 0.0, "activated");
  }
}

INSTANTIATE_TEST_SUITE_P(AllTargets, TargetsTest,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

}  // namespace
}  // namespace zeroth::cpu
