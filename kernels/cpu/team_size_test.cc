// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How many threads share the work does not change a bit of the result.

#include <omp.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/cpu/attention.h"
#include "zeroth/kernels/cpu/cross_entropy.h"
#include "zeroth/kernels/cpu/gemm_epilogue.h"
#include "zeroth/kernels/cpu/widened_gemm.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {
namespace {

class TeamSizeTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP()
        << "the thread sanitizer cannot see the synchronisation inside GCC's OpenMP runtime";
#endif
  }
  void TearDown() override { omp_set_num_threads(1); }

  // What `compute` returns on one thread and on as many as the parameter says.
  template <typename Compute>
  void ExpectSameBits(const Compute& compute) {
    omp_set_num_threads(1);
    const std::vector<float> alone = compute();
    omp_set_num_threads(GetParam());
    EXPECT_EQ(compute(), alone);
  }

  std::vector<float> RandomNormal(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random_);
    return values;
  }

 private:
  std::mt19937_64 random_{5};
};

TEST_P(TeamSizeTest, Attention) {
  const AttentionShape shape{2, 75, 6, 3, 20};
  const int64_t out_count = shape.batch * shape.seq * shape.heads * shape.head_dim;
  const std::vector<float> qkv = RandomNormal(shape.batch * shape.seq * shape.packed_dim());
  const std::vector<float> dout = RandomNormal(out_count);
  absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", DeviceOptions{});
  ASSERT_TRUE(device.ok()) << device.status();
  ExpectSameBits([&] {
    Workspace workspace((*device)->allocator());
    std::vector<float> out(dout.size());
    std::vector<float> lse(static_cast<size_t>(shape.batch * shape.heads * shape.seq));
    std::vector<float> all(qkv.size());
    EXPECT_TRUE(
        AttentionForward({shape, DType::kFloat32, qkv.data(), out.data(), lse.data()}, workspace)
            .ok());
    EXPECT_TRUE(AttentionBackward({shape, DType::kFloat32, dout.data(), qkv.data(), out.data(),
                                   lse.data(), all.data()},
                                  workspace)
                    .ok());
    all.insert(all.end(), out.begin(), out.end());
    all.insert(all.end(), lse.begin(), lse.end());
    return all;
  });
}

TEST_P(TeamSizeTest, SoftmaxCrossEntropy) {
  constexpr int64_t kRows = 130;
  constexpr int64_t kVocab = 301;
  const std::vector<float> logits = RandomNormal(kRows * kVocab);
  std::vector<int32_t> targets;
  for (int32_t row = 0; row < kRows; ++row) targets.push_back(row % 7 == 0 ? kIgnoredTarget : row);
  ExpectSameBits([&] {
    std::vector<float> gradients = logits;
    double loss = 0.0;
    SoftmaxCrossEntropy(kRows, kVocab, gradients.data(), targets.data(), DType::kFloat32, 0.01f,
                        loss);
    gradients.push_back(static_cast<float>(loss));
    return gradients;
  });
}

TEST_P(TeamSizeTest, FinishProduct) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kCols = 301;
  const std::vector<float> product = RandomNormal(kRows * kCols);
  const std::vector<float> bias = RandomNormal(kCols);
  ExpectSameBits([&] {
    std::vector<float> result = product;
    FinishProduct(
        kRows, kCols, result.data(), kCols,
        {.bias = bias.data(), .activation = Activation::kGelu, .c = result.data(), .ldc = kCols});
    return result;
  });
}

TEST_P(TeamSizeTest, WidenedGemm) {
  constexpr int64_t kM = 70;
  constexpr int64_t kN = 1100;
  constexpr int64_t kK = 50;
  std::vector<BFloat16> a, b;
  for (const float value : RandomNormal(kM * kK)) a.push_back(ToBFloat16(value));
  for (const float value : RandomNormal(kK * kN)) b.push_back(ToBFloat16(value));
  absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", DeviceOptions{});
  ASSERT_TRUE(device.ok()) << device.status();
  ExpectSameBits([&] {
    Workspace workspace((*device)->allocator());
    std::vector<float> c(kM * kN);
    EXPECT_TRUE(WidenedGemm({.m = kM,
                             .n = kN,
                             .k = kK,
                             .dtype = DType::kBFloat16,
                             .a = a.data(),
                             .lda = kK,
                             .b = b.data(),
                             .ldb = kN,
                             .c = c.data(),
                             .ldc = kN},
                            workspace)
                    .ok());
    return c;
  });
}

INSTANTIATE_TEST_SUITE_P(Teams, TeamSizeTest, testing::Values(2, 3, 8));

}  // namespace
}  // namespace zeroth::cpu
