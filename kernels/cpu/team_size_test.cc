// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The number of threads does not change any bit of a result.

#include <omp.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"

namespace zeroth::cpu {
namespace {

class TeamSizeTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP()
        << "the thread sanitizer cannot see the synchronisation inside GCC's OpenMP runtime";
#endif
    absl::StatusOr<std::shared_ptr<Device>> device =
        DeviceRegistry::Create("cpu", {.bits_of_any_team = true});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
    kernels_ = std::make_unique<CpuKernels>(*device_, CpuStream::From(device_->compute_stream()),
                                            KernelOptions());
  }
  void TearDown() override { omp_set_num_threads(1); }

  // Checks that `compute` returns the same on one thread and on the parameter's number of threads.
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
  CpuKernels& kernels() { return *kernels_; }

 private:
  std::mt19937_64 random_{5};
  std::shared_ptr<Device> device_;
  std::unique_ptr<CpuKernels> kernels_;
};

TEST_P(TeamSizeTest, Attention) {
  const AttentionShape shape{2, 75, 6, 3, 20};
  const int64_t out_count = shape.batch * shape.seq * shape.heads * shape.head_dim;
  const std::vector<float> qkv = RandomNormal(shape.batch * shape.seq * shape.packed_dim());
  const std::vector<float> dout = RandomNormal(out_count);
  ExpectSameBits([&] {
    std::vector<float> out(dout.size());
    std::vector<float> lse(static_cast<size_t>(shape.batch * shape.heads * shape.seq));
    std::vector<float> all(qkv.size());
    EXPECT_TRUE(
        AttentionForward({shape, DType::kFloat32, qkv.data(), nullptr, out.data(), lse.data()},
                         kernels())
            .ok());
    EXPECT_TRUE(AttentionBackward({shape, DType::kFloat32, dout.data(), qkv.data(), nullptr,
                                   out.data(), lse.data(), all.data()},
                                  kernels())
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
                        /*cap=*/0, loss);
    gradients.push_back(static_cast<float>(loss));
    return gradients;
  });
}

TEST_P(TeamSizeTest, ApplyEpilogue) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kCols = 301;
  const std::vector<float> product = RandomNormal(kRows * kCols);
  const std::vector<float> bias = RandomNormal(kCols);
  ExpectSameBits([&] {
    std::vector<float> result = product;
    ApplyEpilogue({.m = kRows,
                   .n = kCols,
                   .c = result.data(),
                   .ldc = kCols,
                   .bias = bias.data(),
                   .activation = Activation::kGelu},
                  result.data(), kCols);
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
  ExpectSameBits([&] {
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
                            kernels().gemm_workspace())
                    .ok());
    return c;
  });
}

struct MatmulShape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

// Shapes whose terms oneDNN divides among threads, and shapes of several tiles, the last ones
// partial.
TEST_P(TeamSizeTest, MatmulsOfAnyTeam) {
  const auto round = [](const std::vector<float>& values) {
    std::vector<BFloat16> rounded;
    for (const float value : values) rounded.push_back(ToBFloat16(value));
    return rounded;
  };
  for (const MatmulShape& shape : std::vector<MatmulShape>{{1, 768, 3072, false, false},
                                                           {64, 64, 4096, true, false},
                                                           {128, 384, 8192, true, false},
                                                           {300, 1100, 70, false, true},
                                                           {513, 70, 600, false, false}}) {
    const std::vector<float> a = RandomNormal(shape.m * shape.k);
    const std::vector<float> b = RandomNormal(shape.k * shape.n);
    const std::vector<float> bias = RandomNormal(shape.n);
    const std::vector<float> start = RandomNormal(shape.m * shape.n);
    const std::vector<BFloat16> a_bf16 = round(a);
    const std::vector<BFloat16> b_bf16 = round(b);
    const std::vector<BFloat16> bias_bf16 = round(bias);
    GemmCall call;
    call.m = shape.m;
    call.n = shape.n;
    call.k = shape.k;
    call.lda = shape.transpose_a ? shape.m : shape.k;
    call.ldb = shape.transpose_b ? shape.k : shape.n;
    call.ldc = shape.n;
    call.transpose_a = shape.transpose_a;
    call.transpose_b = shape.transpose_b;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const bool fp32 = dtype == DType::kFloat32;
      call.dtype = dtype;
      call.a = fp32 ? static_cast<const void*>(a.data()) : a_bf16.data();
      call.b = fp32 ? static_cast<const void*>(b.data()) : b_bf16.data();
      for (const bool accumulate : {true, false}) {
        SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k << " of "
                                        << DTypeName(dtype).data() << " " << accumulate);
        call.accumulate = accumulate;
        const void* const values = fp32 ? static_cast<const void*>(bias.data()) : bias_bf16.data();
        call.bias = accumulate ? nullptr : values;
        call.activation = accumulate ? Activation::kNone : Activation::kGelu;
        std::vector<float> before(accumulate ? 0 : start.size());
        call.pre_activation = accumulate ? nullptr : before.data();
        ExpectSameBits([&] {
          std::vector<float> c = start;
          call.c = c.data();
          EXPECT_TRUE(Gemm(call, kernels()).ok());
          c.insert(c.end(), before.begin(), before.end());
          return c;
        });
        // Elements are also in their places: oneDNN's own division of the work has the same result
        // within rounding.
        std::vector<float> c = start;
        call.c = c.data();
        EXPECT_TRUE(Gemm(call, kernels()).ok());
        GemmCall whole = call;
        std::vector<float> expected = start;
        whole.c = expected.data();
        EXPECT_TRUE(OneDnnGemm(whole, kernels().gemm_workspace()).ok());
        const double scale = std::sqrt(static_cast<double>(shape.k));
        for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], 1e-4 * scale) << i;
      }
    }
  }
}

TEST_P(TeamSizeTest, LinearCrossEntropyOfAnyTeam) {
  constexpr int64_t kRows = 4200;
  constexpr int64_t kDim = 24;
  constexpr int64_t kVocab = 61;
  const std::vector<float> hidden = RandomNormal(kRows * kDim);
  const std::vector<float> weight = RandomNormal(kVocab * kDim);
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < kRows; ++row) targets.push_back(static_cast<int32_t>(row % kVocab));
  LinearCrossEntropyCall call;
  call.rows = kRows;
  call.dim = kDim;
  call.vocab = kVocab;
  call.hidden = hidden.data();
  call.weight = weight.data();
  call.targets = targets.data();
  ExpectSameBits([&] {
    std::vector<float> loss(1);
    std::vector<float> dhidden(hidden.size());
    std::vector<float> dweight(weight.size());
    call.loss = loss.data();
    call.dhidden = dhidden.data();
    call.dweight = dweight.data();
    EXPECT_TRUE(LinearCrossEntropy(call, kernels()).ok());
    loss.insert(loss.end(), dhidden.begin(), dhidden.end());
    loss.insert(loss.end(), dweight.begin(), dweight.end());
    return loss;
  });
}

INSTANTIATE_TEST_SUITE_P(Teams, TeamSizeTest, testing::Values(2, 3, 8));

}  // namespace
}  // namespace zeroth::cpu
