// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Both ways to multiply bf16 compute the same, whichever this machine prefers.

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/activation/testing/activation_reference.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/gemm/testing/gemm_reference.h"

namespace zeroth::cpu {
namespace {

enum class What { kMatmul, kAccumulate, kBias, kGelu, kGeluBackward };

// Elements as a kernel sees them, and their values.
struct Values {
  std::vector<float> fp32;
  std::vector<BFloat16> bf16;
  std::vector<double> exact;

  void* data(DType dtype) {
    return dtype == DType::kFloat32 ? static_cast<void*>(fp32.data()) : bf16.data();
  }
  double at(DType dtype, int64_t i) const {
    return static_cast<double>(dtype == DType::kFloat32 ? fp32[i] : ToFloat(bf16[i]));
  }
};

// A depth that is native if any depth is.
constexpr int64_t kNativeDepth = 64;

// The parameter tells whether operands are widened, or multiplied by the CPU's own instructions.
class Bf16GemmTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!Multiplies(kNativeDepth)) GTEST_SKIP() << "oneDNN has no bf16 matmul on this CPU";
    absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", DeviceOptions{});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
    device_->BindThread();
    workspace_ = std::make_unique<Workspace>(device_->allocator());
  }

  int64_t RandomSize(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  // Random values that bf16 holds exactly.
  Values Random(int64_t count) {
    std::normal_distribution<float> normal;
    Values values;
    for (int64_t i = 0; i < count; ++i) {
      values.bf16.push_back(ToBFloat16(normal(random_)));
      values.fp32.push_back(ToFloat(values.bf16.back()));
      values.exact.push_back(static_cast<double>(values.fp32.back()));
    }
    return values;
  }

  // Some CPUs have native matmuls for some depths only.
  bool Multiplies(int64_t depth) const { return GetParam() || HasNativeBf16Matmul(depth); }

  absl::Status Run(const GemmCall& call) {
    return GetParam() ? WidenedGemm(call, *workspace_) : Bf16Matmul(call, *workspace_);
  }

  void Check(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, What what,
             DType c_dtype);

 private:
  std::mt19937_64 random_{11};
  std::shared_ptr<Device> device_;
  std::unique_ptr<Workspace> workspace_;
};

// Half a unit in the last place of bf16; a few of fp32, for the activation's own arithmetic.
double Rounding(DType dtype, double x) {
  if (x == 0.0) return 0.0;
  return std::ldexp(1.0, std::ilogb(x) - (dtype == DType::kFloat32 ? 21 : 8));
}

double Expected(What what, double product, double bias, double saved, double old) {
  switch (what) {
    case What::kMatmul:
      return product;
    case What::kAccumulate:
      return product + old;
    case What::kBias:
      return product + bias;
    case What::kGelu:
      return reference::Activate(Activation::kGelu, product + bias);
    case What::kGeluBackward:
      return product * reference::GeluDerivative(saved);
  }
  return 0.0;
}

// The first `cols` of every `ld` elements.
std::vector<double> Inner(const Values& values, int64_t rows, int64_t cols, int64_t ld) {
  std::vector<double> inner;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) inner.push_back(values.exact[r * ld + c]);
  }
  return inner;
}

void Bf16GemmTest::Check(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                         What what, DType c_dtype) {
  if (!Multiplies(k)) return;
  SCOPED_TRACE(absl::StrCat("m = ", m, ", n = ", n, ", k = ", k, transpose_a ? ", a^T" : "",
                            transpose_b ? ", b^T" : "", ", what ", static_cast<int>(what), ", c ",
                            DTypeName(c_dtype)));
  const int64_t a_rows = transpose_a ? k : m, a_cols = transpose_a ? m : k;
  const int64_t b_rows = transpose_b ? n : k, b_cols = transpose_b ? k : n;
  GemmCall call{.m = m, .n = n, .k = k, .dtype = DType::kBFloat16, .c_dtype = c_dtype};
  const int64_t padding = RandomSize(0, 1) * 19;
  call.lda = a_cols + RandomSize(0, padding);
  call.ldb = b_cols + RandomSize(0, padding);
  call.ldc = n + RandomSize(0, padding);
  Values a = Random(a_rows * call.lda), b = Random(b_rows * call.ldb), c = Random(m * call.ldc);
  Values bias = Random(n), saved = Random(m * n);
  const Values before = c, saved_before = saved;
  call.a = a.bf16.data();
  call.transpose_a = transpose_a;
  call.b = b.bf16.data();
  call.transpose_b = transpose_b;
  call.c = c.data(c_dtype);
  call.accumulate = what == What::kAccumulate;
  if (what == What::kBias || what == What::kGelu) call.bias = bias.bf16.data();
  if (what == What::kGelu) {
    call.activation = Activation::kGelu;
    call.pre_activation = saved.data(c_dtype);
  }
  if (what == What::kGeluBackward) call.gelu_input = saved.data(c_dtype);
  const absl::Status status = Run(call);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<double> products =
      reference::Gemm(m, n, k, Inner(a, a_rows, a_cols, call.lda), transpose_a,
                      Inner(b, b_rows, b_cols, call.ldb), transpose_b);
  // Each of the k additions may lose half an ulp of sums of about sqrt(k) standard normal products;
  // then comes the one rounding of what is stored.
  const double fp32_error = std::ldexp(static_cast<double>(k + 4), -24) * 8.0 * std::sqrt(k);
  for (int64_t i = 0; i < m * call.ldc; ++i) {
    const int64_t column = i % call.ldc;
    if (column >= n) {
      ASSERT_EQ(c.at(c_dtype, i), before.exact[i]) << "beside c, " << i;
      continue;
    }
    const int64_t at = i / call.ldc * n + column;
    const double expected =
        Expected(what, products[at], bias.exact[column], saved_before.exact[at], before.exact[i]);
    ASSERT_NEAR(c.at(c_dtype, i), expected, fp32_error + Rounding(c_dtype, expected)) << i;
    if (what != What::kGelu) continue;
    const double pre = products[at] + bias.exact[column];
    ASSERT_NEAR(saved.at(c_dtype, at), pre, fp32_error + Rounding(c_dtype, pre)) << at;
  }
}

TEST_P(Bf16GemmTest, RandomShapes) {
  for (int i = 0; i < 60; ++i) {
    const int64_t depth = i % 2 == 0 ? RandomSize(1, 70) : 32 * RandomSize(1, 5);
    Check(RandomSize(1, 70), RandomSize(1, 150), depth, RandomSize(0, 1) == 1,
          RandomSize(0, 1) == 1, static_cast<What>(i % 5),
          RandomSize(0, 1) == 1 ? DType::kFloat32 : DType::kBFloat16);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Bf16GemmTest, SeveralBlocksOfEverySide) {
  for (const DType c_dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const What what : {What::kAccumulate, What::kBias, What::kGelu, What::kGeluBackward}) {
      Check(1030, 45, 33, false, true, what, c_dtype);
      Check(31, 1100, 21, true, false, what, c_dtype);
      Check(7, 19, 2055, false, false, what, c_dtype);
      Check(1030, 45, 64, false, true, what, c_dtype);
      Check(31, 1100, 96, true, false, what, c_dtype);
      Check(7, 19, 2048, false, false, what, c_dtype);
    }
  }
  Check(1027, 1029, 17, true, true, What::kGelu, DType::kBFloat16);
}

TEST(Bf16Matmul, TheFastestOnesExist) {
  for (const int64_t depth : {1, 31, 32, 63, 64, 50257}) {
    EXPECT_TRUE(WidensOperands(DType::kBFloat16, depth) || HasNativeBf16Matmul(depth));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Bf16GemmTest, testing::Bool(), [](const auto& way) {
  return std::string(way.param ? "Widened" : "Native");
});

}  // namespace
}  // namespace zeroth::cpu
