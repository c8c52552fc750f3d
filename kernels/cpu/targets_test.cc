// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Every instruction set of this machine computes the same results. Other tests see only the best
// one.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/activation/testing/activation_reference.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/attention/testing/attention_reference.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/gemm/testing/gemm_reference.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/testing/linear_cross_entropy_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

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
    kernels_ = std::make_unique<CpuKernels>(*device_, CpuStream::From(device_->compute_stream()),
                                            KernelOptions());
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
  CpuKernels& kernels() { return *kernels_; }

 private:
  std::mt19937_64 random_{1};
  std::shared_ptr<Device> device_;
  std::unique_ptr<CpuKernels> kernels_;
};

// The allowed error of fp32 arithmetic, relative to the largest element, and the further error
// allowed where 16-bit intermediates are read again.
double Tolerance(DType dtype) { return dtype == DType::kFloat32 ? 4e-6 : std::ldexp(1.0, -7); }

// Memory of any element type.
class Elements {
 public:
  Elements(DType dtype, const std::vector<float>& values) : dtype_(dtype), fp32_(values) {
    for (const float value : values) {
      bf16_.push_back(ToBFloat16(value));
      fp16_.push_back(ToFloat16(value));
    }
  }
  Elements(DType dtype, size_t count) : Elements(dtype, std::vector<float>(count)) {}

  void* data() {
    if (dtype_ == DType::kFloat32) return fp32_.data();
    return dtype_ == DType::kBFloat16 ? static_cast<void*>(bf16_.data()) : fp16_.data();
  }
  std::vector<float> values() const {
    if (dtype_ == DType::kFloat32) return fp32_;
    std::vector<float> values;
    for (size_t i = 0; i < fp32_.size(); ++i) {
      values.push_back(dtype_ == DType::kBFloat16 ? ToFloat(bf16_[i]) : ToFloat(fp16_[i]));
    }
    return values;
  }
  std::vector<double> exact() const { return ToDouble(values()); }

 private:
  DType dtype_;
  std::vector<float> fp32_;
  std::vector<BFloat16> bf16_;
  std::vector<Float16> fp16_;
};

TEST_P(TargetsTest, Attention) {
  for (const DType dtype : kElementTypes) {
    for (const AttentionShape& shape :
         {AttentionShape{1, 131, 4, 2, 33}, AttentionShape{2, 70, 2, 2, 64}}) {
      const int64_t out_count = shape.batch * shape.seq * shape.heads * shape.head_dim;
      Elements qkv(dtype, RandomNormal(shape.batch * shape.seq * shape.packed_dim()));
      Elements dout(dtype, RandomNormal(out_count));
      Elements out(dtype, static_cast<size_t>(out_count));
      std::vector<float> lse(static_cast<size_t>(shape.batch * shape.heads * shape.seq));
      Elements dqkv(dtype, qkv.values().size());
      ASSERT_TRUE(
          AttentionForward({shape, dtype, qkv.data(), nullptr, out.data(), lse.data()}, kernels())
              .ok());
      ASSERT_TRUE(AttentionBackward({shape, dtype, dout.data(), qkv.data(), nullptr, out.data(),
                                     lse.data(), dqkv.data()},
                                    kernels())
                      .ok());
      const reference::AttentionOutput expected = reference::Attention(shape, qkv.exact());
      ExpectCloseIn(dtype, out.values(), expected.out, 4e-6, 0.0, "out");
      ExpectClose(lse, expected.lse, 4e-6, 0.0, "lse");
      ExpectCloseIn(dtype, dqkv.values(),
                    reference::AttentionBackward(shape, dout.exact(), qkv.exact()),
                    Tolerance(dtype), 0.0, "dqkv");
    }
  }
}

TEST_P(TargetsTest, LinearCrossEntropy) {
  for (const DType dtype : kElementTypes) {
    LinearCrossEntropyCall call;
    call.rows = 5;
    call.dim = 7;
    call.vocab = 2083;
    call.dtype = dtype;
    call.grad_dtype = dtype;
    Elements hidden(dtype, RandomNormal(call.rows * call.dim));
    Elements weight(dtype, RandomNormal(call.vocab * call.dim));
    const std::vector<int32_t> targets = {0, kIgnoredTarget, 2082, 1024, 7};
    std::vector<float> loss(1);
    Elements dhidden(dtype, hidden.values().size());
    Elements dweight(dtype, weight.values().size());
    call.hidden = hidden.data();
    call.weight = weight.data();
    call.targets = targets.data();
    call.loss = loss.data();
    call.dhidden = dhidden.data();
    call.dweight = dweight.data();
    ASSERT_TRUE(LinearCrossEntropy(call, kernels()).ok());
    const auto expected = reference::LinearCrossEntropy(call.dim, call.vocab, hidden.exact(),
                                                        weight.exact(), targets);
    ExpectClose(loss, {expected.loss}, 1e-6, 0.0, "loss");
    ExpectCloseIn(dtype, dhidden.values(), expected.dhidden, Tolerance(dtype), 0.0, "dhidden");
    ExpectCloseIn(dtype, dweight.values(), expected.dweight, Tolerance(dtype), 0.0, "dweight");
  }
}

// A matmul of fp32 with every epilogue, into either type.
TEST_P(TargetsTest, ApplyEpilogue) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kCols = 37;
  constexpr size_t kCount = kRows * kCols;
  const std::vector<float> product = RandomNormal(kRows * kCols);
  for (const DType dtype : kElementTypes) {
    Elements bias(dtype, RandomNormal(kCols));
    Elements input(dtype, RandomNormal(kRows * kCols));
    const std::vector<float> old = RoundTo(dtype, RandomNormal(kRows * kCols));
    const auto check = [&](GemmCall call, const auto& definition) {
      Elements c(dtype, old);
      call.m = kRows;
      call.n = kCols;
      call.dtype = dtype;
      call.c_dtype = dtype;
      call.c = c.data();
      call.ldc = kCols;
      ApplyEpilogue(call, product.data(), kCols);
      std::vector<double> expected;
      for (size_t i = 0; i < kCount; ++i) expected.push_back(definition(i));
      ExpectCloseIn(dtype, c.values(), expected, 4e-7, 0.0, "c");
    };
    const std::vector<double> shift = bias.exact();
    for (const Activation activation : {Activation::kNone, Activation::kGelu, Activation::kSilu}) {
      check({.bias = bias.data(), .activation = activation}, [&](size_t i) {
        return reference::Activate(activation, static_cast<double>(product[i]) + shift[i % kCols]);
      });
    }
    check({.accumulate = true}, [&](size_t i) { return static_cast<double>(product[i]) + old[i]; });
    const std::vector<double> at = input.exact();
    check({.gelu_input = input.data()}, [&](size_t i) {
      return static_cast<double>(product[i]) * reference::GeluDerivative(at[i]);
    });
    Elements kept(dtype, kCount);
    check({.activation = Activation::kGelu, .pre_activation = kept.data()}, [&](size_t i) {
      return reference::Activate(Activation::kGelu, static_cast<double>(product[i]));
    });
    EXPECT_EQ(kept.values(), RoundTo(dtype, product));
  }
}

// Every value of `T` keeps its bits; everything between two of them goes to the nearer, ties to the
// even one; a NaN stays one. `round` is the conversion of one value.
template <typename T>
void ExpectRoundsAs(T (*round)(float)) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    // Ties of bf16 and of fp16, subnormal ones among them, and their neighbours.
    for (const uint32_t low :
         {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const uint32_t bits = high << 16 | low;
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      values.push_back(value);
    }
  }
  std::vector<T> actual(values.size());
  const int64_t count = static_cast<int64_t>(values.size());
  ApplyEpilogue({.m = 1, .n = count, .c_dtype = DTypeOf<T>::value, .c = actual.data()},
                values.data(), count);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(actual[i].bits, round(values[i]).bits) << values[i];
  std::vector<float> widened(values.size());
  WidenRows(1, count, DTypeOf<T>::value, actual.data(), count, widened.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = ToFloat(actual[i]);
    ASSERT_EQ(std::memcmp(&widened[i], &expected, sizeof(expected)), 0) << expected;
  }
}

TEST_P(TargetsTest, RoundingToBFloat16) { ExpectRoundsAs<BFloat16>(ToBFloat16); }

TEST_P(TargetsTest, RoundingToFloat16) { ExpectRoundsAs<Float16>(ToFloat16); }

INSTANTIATE_TEST_SUITE_P(AllTargets, TargetsTest,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

}  // namespace
}  // namespace zeroth::cpu
