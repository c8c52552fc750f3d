// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The number of OpenMP threads must not change a result. Sizes are large enough for several pieces.

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

namespace zeroth {
namespace {

class ThreadsTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "libgomp synchronises in ways that the thread sanitizer does not see";
#endif
  }

  void Open(int threads) {
    kernels_.reset();
    DeviceOptions options;
    options.threads = threads;
    device_ = *DeviceRegistry::Create("cpu", options);
    device_->BindThread();
    kernels_ = *KernelRegistry::Create(*device_, device_->compute_stream());
    random_.seed(7);
  }

  // A random tensor of the type under test.
  Tensor Random(const Shape& shape) { return Random(shape, dtype_); }

  Tensor Random(const Shape& shape, DType dtype) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (float& value : values) value = normal(random_);
    const Tensor wide =
        *Tensor::FromHost<float>(*device_, shape, values, MemoryCategory::kActivations);
    const Tensor tensor = *Tensor::Empty(*device_, shape, dtype, MemoryCategory::kActivations);
    EXPECT_TRUE(kernels::Cast(*kernels_, wide, tensor).ok());
    return tensor;
  }

  std::vector<float> Values(const Tensor& tensor) {
    const Tensor wide =
        *Tensor::Empty(*device_, tensor.shape(), DType::kFloat32, MemoryCategory::kActivations);
    EXPECT_TRUE(kernels::Cast(*kernels_, tensor, wide).ok());
    return *wide.ToHost<float>();
  }

  // Runs `body`, which returns its result's tensors, with one, two and three threads, for either
  // type.
  template <typename Body>
  void ExpectSameBits(const Body& body) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      dtype_ = dtype;
      std::vector<std::vector<float>> expected;
      for (const int threads : {1, 2, 3}) {
        Open(threads);
        const std::vector<Tensor> results = body();
        std::vector<std::vector<float>> values;
        for (const Tensor& result : results) values.push_back(Values(result));
        if (threads == 1) expected = values;
        EXPECT_EQ(values, expected) << threads << " threads, " << DTypeName(dtype);
      }
    }
  }

  DType dtype_ = DType::kFloat32;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  std::mt19937_64 random_;
};

TEST_F(ThreadsTest, LayerNormBackward) {
  ExpectSameBits([&]() -> std::vector<Tensor> {
    constexpr int64_t kRows = 333;
    constexpr int64_t kDim = 201;
    LayerNormBackwardArgs args;
    args.dy = Random({kRows, kDim});
    args.x = Random({kRows, kDim});
    args.gamma = Random({kDim});
    args.mean = Random({kRows}, DType::kFloat32);
    args.rstd = Random({kRows}, DType::kFloat32);
    args.dx = Random({kRows, kDim});
    args.dgamma = Random({kDim});
    args.dbeta = Random({kDim});
    EXPECT_TRUE(kernels::LayerNormBackward(*kernels_, args).ok());
    return {args.dx, args.dgamma, args.dbeta};
  });
}

TEST_F(ThreadsTest, BiasGradient) {
  ExpectSameBits([&]() -> std::vector<Tensor> {
    const Tensor dbias = Random({300});
    EXPECT_TRUE(kernels::BiasGradient(*kernels_, Random({1001, 300}), dbias, true).ok());
    return {dbias};
  });
}

TEST_F(ThreadsTest, EmbeddingBackward) {
  ExpectSameBits([&]() -> std::vector<Tensor> {
    std::vector<int32_t> tokens(500);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random_() % 40);
    const Tensor ids =
        *Tensor::FromHost<int32_t>(*device_, {5, 100}, tokens, MemoryCategory::kActivations);
    const Tensor dtable = Random({40, 130});
    EXPECT_TRUE(
        kernels::EmbeddingBackward(*kernels_, ids, Random({5, 100, 130}), dtable, false).ok());
    return {dtable};
  });
}

TEST_F(ThreadsTest, ElementwiseAndAdamW) {
  ExpectSameBits([&]() -> std::vector<Tensor> {
    constexpr int64_t kCount = 100003;
    const Tensor y = Random({kCount});
    EXPECT_TRUE(kernels::Gelu(*kernels_, Random({kCount}), y).ok());
    AdamWArgs args;
    args.lr = 0.1;
    args.param = Random({kCount}, DType::kFloat32);
    args.grad = y;
    args.m = Random({kCount}, DType::kFloat32);
    args.v = *Tensor::Zeros(*device_, {kCount}, DType::kFloat32, MemoryCategory::kOptimizer);
    EXPECT_TRUE(kernels::AdamW(*kernels_, args).ok());
    return {y, args.param, args.m, args.v};
  });
}

// Small ranges share a piece, and large ones are cut anywhere.
TEST_F(ThreadsTest, AdamWOfManyRanges) {
  ExpectSameBits([&]() -> std::vector<Tensor> {
    std::vector<AdamWArgs> ranges;
    std::vector<Tensor> results;
    for (const int64_t count : {5, 0, 70001, 768, 768, 1, 129, 300000, 3}) {
      AdamWArgs args;
      args.lr = 0.1;
      args.weight_decay = count == 768 ? 0.1 : 0.0;
      args.stream = static_cast<uint64_t>(count);
      args.first_element = 77;
      args.param = Random({count});
      args.grad = Random({count});
      args.m = Random({count});
      args.v = *Tensor::Zeros(*device_, {count}, dtype_, MemoryCategory::kOptimizer);
      ranges.push_back(args);
      results.insert(results.end(), {args.param, args.m, args.v});
    }
    EXPECT_TRUE(kernels::AdamW(*kernels_, ranges).ok());
    return results;
  });
}

TEST_F(ThreadsTest, PositionBackward) {
  ExpectSameBits([&]() -> std::vector<Tensor> {
    const Tensor dpositions = Random({301, 130}, DType::kBFloat16);
    EXPECT_TRUE(kernels::PositionBackward(*kernels_, Random({5, 300, 130}), dpositions, true).ok());
    return {dpositions};
  });
}

TEST_F(ThreadsTest, AddSquares) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<int64_t> expected;
    for (const int threads : {1, 2, 3}) {
      Open(threads);
      const Tensor sum =
          *Tensor::Zeros(*device_, {ExactSum::kWords}, DType::kInt64, MemoryCategory::kWorkspace);
      ASSERT_TRUE(kernels::AddSquares(*kernels_, Random({600001}, dtype), sum).ok());
      const std::vector<Tensor> more = {Random({3}, dtype), Random({0}, dtype),
                                        Random({300000}, dtype), Random({7}, dtype)};
      ASSERT_TRUE(kernels::AddSquares(*kernels_, more, sum).ok());
      const std::vector<int64_t> words = *sum.ToHost<int64_t>();
      if (threads == 1) expected = words;
      EXPECT_EQ(words, expected) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace zeroth
