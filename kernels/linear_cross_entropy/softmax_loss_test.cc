// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares each way of processing a row with the definition. The shared suite tests the loss as a
// whole.

#include "zeroth/kernels/linear_cross_entropy/softmax_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth::cuda {
namespace {

constexpr int64_t kRows = 5;
constexpr float kScale = 0.5f;
const std::vector<int32_t> kTargets = {0, -100, 2, 1, -100};
constexpr int32_t kCounted = 3;

// The gradient at the start of a row, which is fp32 or, packed into it, bf16.
float GradientAt(const float* row, DType dtype, int64_t at) {
  if (dtype == DType::kFloat32) return row[at];
  uint16_t half;
  std::memcpy(&half, reinterpret_cast<const char*>(row) + 2 * at, sizeof(half));
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

class SoftmaxLossTest : public testing::Test {
 protected:
  void SetUp() override {
    ZEROTH_SKIP_WITHOUT_DEVICE("cuda");
    device_ = *DeviceRegistry::Create("cuda", DeviceOptions());
    device_->BindThread();
  }

  const DeviceProperties& properties() { return CudaDevice::From(*device_).properties(); }

  template <typename T>
  Tensor Upload(const std::vector<T>& values) {
    return *Tensor::FromHost<T>(*device_, Shape({static_cast<int64_t>(values.size())}), values,
                                MemoryCategory::kWorkspace);
  }

  static constexpr int64_t kAllMinusInfinity = 2;  // a row that counts

  // Puts infinities and NaN where they must not matter, and -infinity into all of one row.
  static void AddSpecial(int64_t vocab, int64_t stride, std::vector<float>& logits) {
    const auto set = [&](int64_t row, int64_t at, float value) {
      logits[static_cast<size_t>(row * stride + at)] = value;
    };
    if (vocab > 1) set(0, vocab - 1, -INFINITY);  // its target is 0
    set(1, 0, INFINITY);
    set(4, vocab - 1, std::nanf(""));
    for (int64_t i = 0; i < vocab; ++i) set(kAllMinusInfinity, i, -INFINITY);
  }

  // Runs the kernel on rows of random logits, between which nothing may be read.
  void Check(int64_t vocab, DType dtype, size_t shared_bytes, bool special = false,
             float mean = 1.0f) {
    SCOPED_TRACE(absl::StrCat("vocab ", vocab, ", ", DTypeName(dtype), ", shared ", shared_bytes));
    const int64_t stride = (vocab + 7) / 8 * 8;
    std::vector<float> logits(static_cast<size_t>(kRows * stride), std::nanf(""));
    std::normal_distribution<float> normal(mean, 3.0f);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < vocab; ++i) {
        logits[static_cast<size_t>(row * stride + i)] = normal(random_);
      }
    }
    if (special) AddSpecial(vocab, stride, logits);
    const Tensor data = Upload(logits);
    const Tensor targets = Upload(kTargets);
    const Tensor counted = Upload(std::vector<int32_t>{kCounted});
    const Tensor losses = Upload(std::vector<float>(kRows, std::nanf("")));
    const LaunchTarget target = {CudaDevice::From(*device_).compute_stream().handle(),
                                 properties().multiprocessors};
    ASSERT_EQ(SoftmaxLoss(kRows, vocab, stride, data.data<float>(), targets.data<int32_t>(),
                          LossDivisor{counted.data<int32_t>()}, /*weights=*/nullptr,
                          /*gradients=*/true, dtype, kScale,
                          /*cap=*/0, losses.data<float>(), shared_bytes, target),
              absl::OkStatus());
    const std::vector<float> loss = *losses.ToHost<float>();
    const std::vector<float> gradients = *data.ToHost<float>();
    for (int64_t row = 0; row < kRows; ++row) {
      if (special && row == kAllMinusInfinity) {
        ASSERT_TRUE(std::isnan(loss[static_cast<size_t>(row)]));
      } else {
        CheckRow(&logits[static_cast<size_t>(row * stride)], vocab,
                 kTargets[static_cast<size_t>(row)], dtype, loss[static_cast<size_t>(row)],
                 &gradients[static_cast<size_t>(row * stride)]);
      }
      for (int64_t i = vocab; i < stride; ++i) {
        ASSERT_EQ(GradientAt(&gradients[static_cast<size_t>(row * stride)], dtype, i), 0.0f);
      }
      if (HasFatalFailure()) return;
    }
  }

  static void CheckRow(const float* logits, int64_t vocab, int32_t target, DType dtype, float loss,
                       const float* gradients) {
    const bool counts = target >= 0 && target < vocab;
    const auto largest = static_cast<double>(*std::max_element(logits, logits + vocab));
    const auto below = [&](int64_t i) { return static_cast<double>(logits[i]) - largest; };
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(below(i));
    ASSERT_NEAR(static_cast<double>(loss), counts ? std::log(sum) - below(target) : 0.0, 2e-5);
    const double rounding = dtype == DType::kFloat32 ? 0.0 : std::ldexp(1.0, -8);
    for (int64_t i = 0; i < vocab; ++i) {
      const double probability = std::exp(below(i)) / sum;
      const double expected = counts ? (probability - (i == target ? 1.0 : 0.0)) *
                                           static_cast<double>(kScale) / kCounted
                                     : 0.0;
      ASSERT_NEAR(static_cast<double>(GradientAt(gradients, dtype, i)), expected,
                  rounding * std::abs(expected) + 1e-6)
          << "element " << i;
    }
  }

  std::shared_ptr<Device> device_;
  std::mt19937 random_{3};
};

TEST_F(SoftmaxLossTest, RowsInSharedMemory) {
  const size_t shared = properties().shared_bytes_per_block;
  // Rows of a few elements, for blocks of few and of many threads, up to the longest that fits. One
  // would fit into the default shared memory if the kernel had no static arrays.
  const auto longest = static_cast<int64_t>((shared - 128) / sizeof(float) / 8 * 8);
  for (const int64_t vocab : {int64_t{1}, int64_t{3}, int64_t{1000}, int64_t{8192}, int64_t{8193},
                              int64_t{12288}, longest - 3, longest}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) Check(vocab, dtype, shared);
  }
}

TEST_F(SoftmaxLossTest, RowsThatDoNotFit) {
  for (const int64_t vocab : {1, 3, 2048, 2049, 10007}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Check(vocab, dtype, /*shared_bytes=*/0);
    }
  }
}

// The loss depends on differences of logits, which are as precise however large these are.
TEST_F(SoftmaxLossTest, LargeLogits) {
  for (const float mean : {-16384.0f, 16384.0f}) {
    for (const int64_t vocab : {1, 3, 1000, 10007}) {
      for (const size_t shared : {size_t{0}, properties().shared_bytes_per_block}) {
        Check(vocab, DType::kFloat32, shared, /*special=*/false, mean);
      }
    }
  }
}

// Rows that do not count have gradients of 0 whatever they hold. A row without a finite logit has
// no loss, at every length.
TEST_F(SoftmaxLossTest, InfinitiesAndNan) {
  for (const int64_t vocab : {3, 8, 1000, 1003}) {
    for (const size_t shared : {size_t{0}, properties().shared_bytes_per_block}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        Check(vocab, dtype, shared, /*special=*/true);
      }
    }
  }
}

}  // namespace
}  // namespace zeroth::cuda
