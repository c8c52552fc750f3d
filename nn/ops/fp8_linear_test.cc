// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares forward and backward with matmuls in double, of values that the test rounds
// arithmetically.

#include "zeroth/nn/ops/fp8_linear.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/host_floats.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

using Values = std::vector<double>;

constexpr int64_t kRows = 7;  // not a multiple of 16: any number of tokens is allowed
constexpr int64_t kIn = 32;
constexpr int64_t kFirstOut = 16;
constexpr int64_t kSecondOut = 48;
constexpr int64_t kOut = kFirstOut + kSecondOut;

// Rounds values to a format with this many bits of mantissa, whose largest number is `largest` and
// whose smallest normal one is 2^least_exponent.
Values Rounded(Values values, int mantissa_bits, int least_exponent, double largest) {
  double amax = 0;
  for (const double x : values) amax = std::max(amax, std::abs(x));
  if (amax == 0) return values;
  for (double& x : values) {
    const double scaled = x * (largest / amax);
    const int exponent =
        std::max(scaled == 0 ? least_exponent : std::ilogb(scaled), least_exponent);
    const double step = std::ldexp(1.0, exponent - mantissa_bits);
    x = std::nearbyint(scaled / step) * step * (amax / largest);
  }
  return values;
}
Values E4M3(const Values& values) { return Rounded(values, 3, -6, 448); }
Values E5M2(const Values& values) { return Rounded(values, 2, -14, 57344); }

// Columns [begin, begin + count) of values [rows, width].
Values Columns(const Values& values, int64_t width, int64_t begin, int64_t count) {
  Values columns;
  for (int64_t row = 0; row < static_cast<int64_t>(values.size()) / width; ++row) {
    for (int64_t i = 0; i < count; ++i) {
      columns.push_back(values[static_cast<size_t>(row * width + begin + i)]);
    }
  }
  return columns;
}

Values Transposed(const Values& values, int64_t width) {
  Values transposed;
  for (int64_t column = 0; column < width; ++column) {
    const Values one = Columns(values, width, column, 1);
    transposed.insert(transposed.end(), one.begin(), one.end());
  }
  return transposed;
}

// a [m, k] times b [k, n].
Values Matmul(const Values& a, const Values& b, int64_t m, int64_t k, int64_t n) {
  Values c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double& sum = c[static_cast<size_t>(i * n + j)];
      for (int64_t l = 0; l < k; ++l) {
        sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
      }
    }
  }
  return c;
}

// Within the rounding of bf16, or of a few fp32 sums.
void ExpectNear(const Tensor& tensor, const Values& expected, const char* what) {
  const absl::StatusOr<std::vector<float>> values = ToHostFloats(tensor);
  ASSERT_TRUE(values.ok()) << values.status();
  ASSERT_EQ(values->size(), expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  const double relative = tensor.dtype() == DType::kFloat32 ? 1e-5 : std::ldexp(1.0, -8);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<double>((*values)[i]), expected[i],
                relative * std::abs(expected[i]) + 1e-5 * largest)
        << what << ", element " << i;
  }
}

class Fp8LinearOpTest : public ::testing::TestWithParam<WeightLayout> {
 protected:
  Fp8LinearOpTest()
      : first_("first", WeightShape(kFirstOut)),
        second_("second", WeightShape(kSecondOut)),
        bias_("bias", Shape({kSecondOut})) {
    for (Parameter* parameter : {&first_, &second_, &bias_}) Own(*parameter);
    x_ = bench_.context->MakeValue(Draw(Shape({kRows, kIn}), 3.0f));
  }

  Shape WeightShape(int64_t out) const {
    return GetParam() == WeightLayout::kInOut ? Shape({kIn, out}) : Shape({out, kIn});
  }

  Tensor Empty(const Shape& shape, DType dtype) { return *bench_.context->Empty(shape, dtype); }

  // bf16, as in mixed precision, of values with outliers.
  Tensor Draw(const Shape& shape, float scale) {
    std::vector<float> values = bench_.Draw(shape.numel(), scale);
    if (!values.empty()) values[values.size() / 2] *= 20;
    Tensor tensor = Empty(shape, DType::kBFloat16);
    EXPECT_EQ(SetFromHostFloats(values, tensor), absl::OkStatus());
    return tensor;
  }

  void Own(Parameter& parameter) {
    parameter.set_data(Draw(parameter.shape(), 0.1f));
    parameter.set_gradient_provider([this, &parameter] {
      parameter.set_grad(Empty(parameter.shape(), DType::kFloat32));
      return absl::OkStatus();
    });
  }

  static Values Host(const Tensor& tensor) {
    const std::vector<float> floats = *ToHostFloats(tensor);
    return Values(floats.begin(), floats.end());
  }

  // A weight as [in, out], as e4m3 holds it.
  Values WeightOf(const Parameter& weight) const {
    const Values values = E4M3(Host(weight.data()));
    return GetParam() == WeightLayout::kInOut ? values : Transposed(values, kIn);
  }

  // The gradient of a weight, given as [in, out].
  void ExpectWeightGradient(const Parameter& weight, const Values& expected, int64_t out) const {
    ExpectNear(weight.grad(),
               GetParam() == WeightLayout::kInOut ? expected : Transposed(expected, out),
               weight.name().c_str());
  }

  int64_t ActivationBytes() const {
    return bench_.device->allocator().stats()[MemoryCategory::kActivations].current_bytes;
  }

  absl::StatusOr<Value> Forward() {
    return Fp8LinearOp(*bench_.context, x_, {{&first_, nullptr}, {&second_, &bias_}}, GetParam());
  }

  testing::Bench bench_;
  Parameter first_;
  Parameter second_;
  Parameter bias_;
  Value x_;
};

TEST_P(Fp8LinearOpTest, MatmulsAreThoseOfRoundedValues) {
  const absl::StatusOr<Value> y = Forward();
  ASSERT_TRUE(y.ok()) << y.status();
  const Values x = E4M3(Host(x_.data));
  const Values y_first = Matmul(x, WeightOf(first_), kRows, kIn, kFirstOut);
  const Values y_second = Matmul(x, WeightOf(second_), kRows, kIn, kSecondOut);
  const Values bias = Host(bias_.data());
  Values expected;
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kFirstOut; ++i) expected.push_back(y_first[row * kFirstOut + i]);
    for (size_t i = 0; i < kSecondOut; ++i) {
      expected.push_back(y_second[row * kSecondOut + i] + bias[i]);
    }
  }
  EXPECT_EQ(y->data.dtype(), DType::kBFloat16);
  ExpectNear(y->data, expected, "y");
}

TEST_P(Fp8LinearOpTest, GradientsAreThoseOfRoundedValuesInBothFormats) {
  const absl::StatusOr<Value> y = Forward();
  ASSERT_TRUE(y.ok()) << y.status();
  const Values x = E4M3(Host(x_.data));
  y->node->grad = Draw(y->data.shape(), 0.01f);
  const Values dy = Host(y->node->grad);
  ASSERT_EQ(bench_.tape.Backward(), absl::OkStatus());

  Values dx(static_cast<size_t>(kRows * kIn), 0.0);
  int64_t column = 0;
  for (const auto& [weight, out] :
       {std::pair<Parameter*, int64_t>{&first_, kFirstOut}, {&second_, kSecondOut}}) {
    // Each part's gradient has a separate scale.
    const Values part = E5M2(Columns(dy, kOut, column, out));
    column += out;
    ExpectWeightGradient(*weight, Matmul(Transposed(x, kIn), part, kIn, kRows, out), out);
    const Values back = Matmul(part, Transposed(WeightOf(*weight), out), kRows, out, kIn);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] += back[i];
  }
  // Rounded to bf16 after each part.
  const Values actual = Host(x_.node->grad);
  double largest = 0;
  for (const double value : dx) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(actual[i], dx[i], largest / 128) << i;
  Values dbias;
  for (int64_t i = 0; i < kSecondOut; ++i) {
    double sum = 0;
    for (const double value : Columns(dy, kOut, kFirstOut + i, 1)) sum += value;
    dbias.push_back(sum);
  }
  ExpectNear(bias_.grad(), dbias, "bias");
}

TEST_P(Fp8LinearOpTest, AWeightUsedTwiceAccumulatesBothContributions) {
  Parameter square("square", Shape({kIn, kIn}));
  Own(square);
  const auto run = [&](int times) {
    std::vector<Value> outputs;
    for (int i = 0; i < times; ++i) {
      outputs.push_back(*Fp8LinearOp(*bench_.context, x_, {{&square, nullptr}}, GetParam()));
    }
    const Tensor dy = Empty(Shape({kRows, kIn}), DType::kBFloat16);
    EXPECT_EQ(SetFromHostFloats(std::vector<float>(kRows * kIn, 0.5f), dy), absl::OkStatus());
    for (Value& y : outputs) y.node->grad = dy;
    x_.node->grad = Tensor();
    EXPECT_EQ(bench_.tape.Backward(), absl::OkStatus());
    const Values gradient = Host(square.grad());
    square.set_grad(Tensor());
    return gradient;
  };
  const Values once = run(1);
  const Values twice = run(2);
  for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], 2 * once[i]) << i;
}

TEST_P(Fp8LinearOpTest, TheInputIsNotKeptInMoreBitsAndNotAtAllForFrozenWeights) {
  for (const bool frozen : {false, true}) {
    first_.set_requires_grad(!frozen);
    second_.set_requires_grad(!frozen);
    const int64_t before = ActivationBytes();
    const absl::StatusOr<Value> y = Forward();
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(x_.data.buffer().use_count(), 1) << "the record keeps the input itself";
    const int64_t kept = ActivationBytes() - before - static_cast<int64_t>(y->data.bytes());
    // Transposed codes of 16 rows, and a scale; a few bytes to round each up.
    if (frozen) {
      EXPECT_LE(kept, 256) << "the scale alone";
    } else {
      EXPECT_GE(kept, kIn * 16);
      EXPECT_LE(kept, kIn * 16 + 512);
    }
    y->node->grad = Draw(y->data.shape(), 0.01f);
    x_.node->grad = Tensor();
    ASSERT_EQ(bench_.tape.Backward(), absl::OkStatus());
    EXPECT_EQ(first_.has_gradient(), !frozen);
    EXPECT_TRUE(x_.node->grad.defined());
    first_.set_grad(Tensor());
    second_.set_grad(Tensor());
    bias_.set_grad(Tensor());
  }
}

TEST_P(Fp8LinearOpTest, NoRowsGiveZeroGradients) {
  x_ = bench_.context->MakeValue(Empty(Shape({0, kIn}), DType::kBFloat16));
  const absl::StatusOr<Value> y = Forward();
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ(y->data.shape(), Shape({0, kOut}));
  y->node->grad = Empty(Shape({0, kOut}), DType::kBFloat16);
  ASSERT_EQ(bench_.tape.Backward(), absl::OkStatus());
  EXPECT_EQ(Host(first_.grad()), Values(static_cast<size_t>(first_.numel()), 0.0));
}

TEST_P(Fp8LinearOpTest, RefusesFp32AndSizesThatAreNotMultiples) {
  const Value wide = bench_.context->MakeValue(Empty(Shape({2, kIn}), DType::kFloat32));
  const absl::Status fp32 =
      Fp8LinearOp(*bench_.context, wide, {{&first_, nullptr}}, GetParam()).status();
  EXPECT_EQ(fp32.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(fp32.ToString().find("'first': its input is fp32"), std::string::npos) << fp32;
  Parameter odd("odd", WeightShape(20));
  EXPECT_FALSE(FitsFp8({{&odd, nullptr}}, GetParam()));
  EXPECT_TRUE(FitsFp8({{&first_, nullptr}, {&second_, nullptr}}, GetParam()));
  const absl::Status sizes =
      Fp8LinearOp(*bench_.context, x_, {{&odd, nullptr}}, GetParam()).status();
  EXPECT_EQ(sizes.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(sizes.ToString().find("steps of 16"), std::string::npos) << sizes;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Fp8LinearOpTest,
                         ::testing::Values(WeightLayout::kInOut, WeightLayout::kOutIn),
                         [](const auto& instance) {
                           return instance.param == WeightLayout::kInOut ? "InOut" : "OutIn";
                         });

}  // namespace
}  // namespace zeroth
