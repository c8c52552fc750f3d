// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class BasicSuite : public KernelsSuite {};

namespace {

using Doubles = std::vector<double>;

double Logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct ElementCase {
  const char* name;
  BasicOp op;
  int operands;  // that it reads: a, then b
  double (*reference)(double a, double b);
};

constexpr double kScalar = 0.25;

const ElementCase kElements[] = {
    {"scale", BasicOp::kScale, 1, [](double a, double) { return kScalar * a; }},
    {"multiply", BasicOp::kMultiply, 2, [](double a, double b) { return a * b; }},
    {"relu", BasicOp::kRelu, 1, [](double a, double) { return a > 0 ? a : 0; }},
    {"relu backward", BasicOp::kReluBackward, 2, [](double a, double b) { return a > 0 ? b : 0; }},
    {"silu", BasicOp::kSilu, 1, [](double a, double) { return a * Logistic(a); }},
    {"silu backward", BasicOp::kSiluBackward, 2,
     [](double a, double b) { return b * Logistic(a) * (1 + a * Logistic(-a)); }},
    {"tanh", BasicOp::kTanh, 1, [](double a, double) { return std::tanh(a); }},
    {"soft cap", BasicOp::kSoftCap, 1,
     [](double a, double) { return kScalar * std::tanh(a / kScalar); }},
    {"tanh backward", BasicOp::kTanhBackward, 2,
     [](double a, double b) { return b * (1 - a * a); }},
    {"sigmoid", BasicOp::kSigmoid, 1, [](double a, double) { return Logistic(a); }},
    {"sigmoid backward", BasicOp::kSigmoidBackward, 2,
     [](double a, double b) { return b * a * (1 - a); }},
    {"fill", BasicOp::kFill, 0, [](double, double) { return kScalar; }},
};

struct Sizes {
  int64_t rows, cols, pad;
};
constexpr Sizes kSizes[] = {{0, 3, 1},  {3, 0, 2},     {1, 1, 0},  {3, 7, 2},
                            {5, 33, 0}, {2, 20011, 0}, {37, 70, 3}};

// A matrix of `rows` x `cols` in a tensor with room on both sides of its rows.
struct Padded {
  std::vector<float> values;  // of the whole tensor
  Shape shape;
  int64_t left = 0;
  int64_t cols = 0;

  double at(int64_t row, int64_t col) const {
    return values[static_cast<size_t>(row * shape.dim(1) + left + col)];
  }
  Matrix In(const Tensor& tensor) const { return Matrix(tensor).Columns(left, cols); }
};

}  // namespace

// Every elementwise operation, on matrices that are all or a part of their tensor, with and without
// accumulation; elements outside of the result stay.
TEST_P(BasicSuite, ElementsAreThoseOfFloat64) {
  int round = 0;
  for (const ElementCase& test_case : kElements) {
    for (const auto& [rows, cols, pad] : kSizes) {
      const DType dtype = kElementTypes[round++ % 3];
      const auto draw = [&, rows = rows, cols = cols, pad = pad](int64_t left) {
        const int64_t width = cols + pad;
        return Padded{RoundTo(dtype, RandomNormal(rows * width, 2.0f)), Shape({rows, width}),
                      pad == 0 ? 0 : left, cols};
      };
      const Padded a = draw(0), b = draw(1), before = draw(pad);
      for (const bool accumulate : {false, true}) {
        const Tensor out = Upload(before.shape, before.values, dtype);
        BasicArgs args{.op = test_case.op, .accumulate = accumulate, .scalar = kScalar};
        if (test_case.operands > 0) args.a = a.In(Upload(a.shape, a.values, dtype));
        if (test_case.operands > 1) args.b = b.In(Upload(b.shape, b.values, dtype));
        args.out = before.In(out);
        ASSERT_TRUE(kernels::Basic(kernels(), args).ok());
        Doubles expected = ToDouble(before.values);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c) {
            const auto at = static_cast<size_t>(r * before.shape.dim(1) + before.left + c);
            const double value = test_case.reference(a.at(r, c), b.at(r, c));
            expected[at] = accumulate ? expected[at] + value : value;
          }
        }
        ExpectCloseIn(dtype, Download(out), expected, 1e-6, 1e-7, test_case.name);
      }
    }
  }
}

// An operand with a stride of 0 is one row, repeated for every row of the result.
TEST_P(BasicSuite, ARowIsReadAgainForEachRow) {
  int round = 0;
  for (const auto& [rows, cols, pad] : kSizes) {
    const DType dtype = kElementTypes[round++ % 3];
    const std::vector<float> a = RoundTo(dtype, RandomNormal(rows * cols, 2.0f));
    const std::vector<float> row = RoundTo(dtype, RandomNormal(cols, 2.0f));
    Matrix again = Upload(Shape({1, cols}), row, dtype);
    again.rows = rows;
    again.stride = 0;
    const Tensor out = Upload(Shape({rows, cols}), a, dtype);
    const BasicArgs args{.op = BasicOp::kMultiply, .a = out, .b = again, .out = out};
    ASSERT_TRUE(kernels::Basic(kernels(), args).ok()) << rows << " x " << cols;
    Doubles expected = ToDouble(a);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] *= static_cast<double>(row[i % static_cast<size_t>(cols)]);
    }
    ExpectCloseIn(dtype, Download(out), expected, 1e-6, 1e-7, "repeated row");
  }
}

// b and the result may be fp32 beside an a of 16 bits: what a does not hold is not lost.
TEST_P(BasicSuite, ProductsWithFp32) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const auto& [rows, cols, pad] : kSizes) {
      for (int which = 1; which < 4; ++which) {
        const DType b_dtype = which % 2 == 0 ? dtype : DType::kFloat32;
        const DType out_dtype = which < 2 ? dtype : DType::kFloat32;
        const int64_t width = cols + pad;
        const std::vector<float> a = RoundTo(dtype, RandomNormal(rows * width, 2.0f));
        const std::vector<float> row = RoundTo(b_dtype, RandomNormal(cols, 2.0f));
        const std::vector<float> before = RoundTo(out_dtype, RandomNormal(rows * width, 2.0f));
        Matrix again = Upload(Shape({1, cols}), row, b_dtype);
        again.rows = rows;
        again.stride = 0;
        const Shape shape({rows, width});
        const Matrix left = Upload(shape, a, dtype);
        for (const bool accumulate : {false, true}) {
          const Tensor out = Upload(shape, before, out_dtype);
          ASSERT_TRUE(kernels::Basic(kernels(), {.op = BasicOp::kMultiply,
                                                 .a = left.Columns(pad, cols),
                                                 .b = again,
                                                 .out = Matrix(out).Columns(0, cols),
                                                 .accumulate = accumulate})
                          .ok());
          Doubles expected = ToDouble(before);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < cols; ++c) {
              const auto at = static_cast<size_t>(r * width + c);
              const double product = static_cast<double>(a[at + static_cast<size_t>(pad)]) *
                                     row[static_cast<size_t>(c)];
              expected[at] = accumulate ? expected[at] + product : product;
            }
          }
          ExpectCloseIn(out_dtype, Download(out), expected, 1e-6, 1e-7, "product with fp32");
        }
      }
    }
  }
}

TEST_P(BasicSuite, ActivationsKeepNaNAndStandInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {std::nanf(""), inf, -inf, 200.0f, -200.0f, 1e-30f, 0.0f};
  const Shape shape({static_cast<int64_t>(values.size())});
  const auto of = [&](BasicOp op) {
    const Tensor out = Unwritten(shape);
    EXPECT_TRUE(kernels::Basic(kernels(), {.op = op, .a = Upload(shape, values), .out = out}).ok());
    std::vector<float> results = Download(out);
    EXPECT_TRUE(std::isnan(results[0]));
    results.erase(results.begin());
    return results;
  };
  EXPECT_EQ(of(BasicOp::kRelu), (std::vector<float>{inf, 0, 200, 0, 1e-30f, 0}));
  EXPECT_EQ(of(BasicOp::kTanh), (std::vector<float>{1, -1, 1, -1, 1e-30f, 0}));
  EXPECT_EQ(of(BasicOp::kSoftCap), (std::vector<float>{1, -1, 1, -1, 1e-30f, 0}));
  const std::vector<float> sigmoid = of(BasicOp::kSigmoid);
  const std::vector<float> expected = {1, 0, 1, 0, 0.5f, 0.5f};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(sigmoid[i], expected[i], 1e-7) << i;
  const std::vector<float> silu = of(BasicOp::kSilu);
  EXPECT_NEAR(silu[2], 200.0f, 1e-4f);
  EXPECT_NEAR(silu[3], 0.0f, 1e-30f);
}

TEST_P(BasicSuite, SoftmaxAndItsBackward) {
  for (int i = 0; i < 30; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t rows = i == 0 ? 0 : RandomSize(1, 20);
    const int64_t cols = i == 1 ? 0 : RandomSize(1, 300);
    const std::vector<float> a = RoundTo(dtype, RandomNormal(rows * cols, 4.0f));
    const std::vector<float> dy = RoundTo(dtype, RandomNormal(rows * cols));
    const Shape shape({rows, cols});
    const Tensor y = Unwritten(shape, dtype);
    ASSERT_TRUE(
        kernels::Basic(kernels(), {.op = BasicOp::kSoftmax, .a = Upload(shape, a, dtype), .out = y})
            .ok());
    const Tensor dx = Unwritten(shape, dtype);
    ASSERT_TRUE(
        kernels::Basic(
            kernels(),
            {.op = BasicOp::kSoftmaxBackward, .a = y, .b = Upload(shape, dy, dtype), .out = dx})
            .ok());
    const std::vector<float> actual = Download(y);
    Doubles expected(a.size()), gradient(a.size());
    for (int64_t r = 0; r < rows; ++r) {
      const auto first = static_cast<size_t>(r * cols);
      double sum = 0, dot = 0;
      for (size_t c = first; c < first + static_cast<size_t>(cols); ++c) sum += std::exp(a[c]);
      for (size_t c = first; c < first + static_cast<size_t>(cols); ++c) {
        expected[c] = std::exp(a[c]) / sum;
        dot += static_cast<double>(actual[c]) * dy[c];
      }
      for (size_t c = first; c < first + static_cast<size_t>(cols); ++c) {
        gradient[c] = actual[c] * (dy[c] - dot);
      }
    }
    ExpectCloseIn(dtype, actual, expected, 2e-6, 1e-9, "softmax");
    ExpectCloseIn(dtype, Download(dx), gradient, 4e-6, 1e-7, "softmax backward");
  }
}

TEST_P(BasicSuite, SoftmaxOfHugeAndAbsentScores) {
  const float inf = std::numeric_limits<float>::infinity();
  const Shape shape({2, 3});
  const Tensor x = Upload(shape, {3e38f, 3e38f, -3e38f, -inf, 1.0f, -inf});
  ASSERT_TRUE(
      kernels::Basic(kernels(), {.op = BasicOp::kSoftmax, .a = x, .out = x}).ok());  // in place
  EXPECT_EQ(Download(x), (std::vector<float>{0.5f, 0.5f, 0, 0, 1, 0}));
}

TEST_P(BasicSuite, MeansOverGroupsOfRowsAndTheirBackward) {
  for (int i = 0; i < 24; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t rows = i == 0 ? 0 : RandomSize(1, 9);
    const int64_t group = i == 5 ? 5000 : RandomSize(1, 40);
    const int64_t cols = i == 1 ? 0 : (i % 2 == 0 ? RandomSize(1, 3) : RandomSize(30, 90));
    const bool accumulate = i % 4 < 2;
    const std::vector<float> a = RoundTo(dtype, RandomNormal(rows * group * cols));
    const std::vector<float> before = RoundTo(dtype, RandomNormal(rows * cols));
    Doubles expected = accumulate ? ToDouble(before) : Doubles(before.size());
    for (size_t at = 0; at < a.size(); ++at) {
      const auto width = static_cast<size_t>(cols);
      const size_t row = at / width / static_cast<size_t>(group);
      expected[row * width + at % width] += a[at] / static_cast<double>(group);
    }
    const Shape whole({rows * group, cols});
    const Tensor out = Upload(Shape({rows, cols}), before, dtype);
    ASSERT_TRUE(kernels::Basic(kernels(), {.op = BasicOp::kMean,
                                           .a = Upload(whole, a, dtype),
                                           .out = out,
                                           .accumulate = accumulate,
                                           .group = group})
                    .ok());
    ExpectCloseIn(dtype, Download(out), expected, 1e-6, 1e-7, "mean");
    const Tensor back = Upload(whole, a, dtype);
    ASSERT_TRUE(kernels::Basic(kernels(), {.op = BasicOp::kMeanBackward,
                                           .a = Upload(Shape({rows, cols}), before, dtype),
                                           .out = back,
                                           .accumulate = accumulate,
                                           .group = group})
                    .ok());
    Doubles gradient = accumulate ? ToDouble(a) : Doubles(a.size());
    for (size_t at = 0; at < a.size(); ++at) {
      const auto width = static_cast<size_t>(cols);
      const size_t row = at / width / static_cast<size_t>(group);
      gradient[at] += before[row * width + at % width] / static_cast<double>(group);
    }
    ExpectCloseIn(dtype, Download(back), gradient, 1e-6, 1e-7, "mean backward");
  }
}

// Dropout follows DropsElement, whichever part of a tensor a call processes.
TEST_P(BasicSuite, DropoutDropsWhoTheDefinitionSays) {
  constexpr float kRate = 0.3f;
  const DropoutDraws draws{
      .key = MakeDropoutKey(7, 11), .stream = 0x123456789abcdefull, .first_element = 5};
  const uint32_t threshold = DropoutThreshold(kRate);
  const int64_t rows = 9, cols = 331;
  int64_t dropped = 0;
  std::vector<float> expected;
  const std::vector<float> x = RandomNormal(rows * cols);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const bool drops = DropsElement(draws, draws.first_element + i, threshold);
    dropped += drops ? 1 : 0;
    expected.push_back(drops ? 0.0f : x[static_cast<size_t>(i)] * (1.0f / (1.0f - kRate)));
  }
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(rows * cols), kRate, 0.03);
  const Shape shape({rows, cols});
  const Tensor from = Upload(shape, x);
  const Tensor out = Unwritten(shape);
  BasicArgs args{.op = BasicOp::kDropout, .a = from, .out = out, .scalar = kRate, .draws = draws};
  ASSERT_TRUE(kernels::Basic(kernels(), args).ok());
  EXPECT_EQ(Download(out), expected);
  // The last rows alone, given the index of their first element, have the same result.
  args.a = from.Rows(4, rows);
  args.draws.first_element += 4 * cols;
  const Tensor part = Unwritten(Shape({rows - 4, cols}));
  args.out = part;
  ASSERT_TRUE(kernels::Basic(kernels(), args).ok());
  EXPECT_EQ(Download(part), std::vector<float>(expected.begin() + 4 * cols, expected.end()));
  // Some columns as a separate matrix, given cols as row_elements, have the same result.
  const int64_t begin = 13, width = 100;
  std::vector<float> columns, expected_columns;
  for (int64_t i = 0; i < rows * width; ++i) {
    const auto at = static_cast<size_t>(i / width * cols + begin + i % width);
    columns.push_back(x[at]);
    expected_columns.push_back(expected[at]);
  }
  args.a = Upload(Shape({rows, width}), columns);
  args.draws = draws;
  args.draws.first_element += begin;
  args.draws.row_elements = cols;
  const Tensor some = Unwritten(Shape({rows, width}));
  args.out = some;
  ASSERT_TRUE(kernels::Basic(kernels(), args).ok());
  EXPECT_EQ(Download(some), expected_columns);
}

TEST_P(BasicSuite, DropoutsOfOtherSeedsStepsAndPlacesDropOthers) {
  const DropoutDraws draws{.key = MakeDropoutKey(7, 11), .stream = 1};
  const DropoutDraws others[] = {{.key = MakeDropoutKey(8, 11), .stream = 1},
                                 {.key = MakeDropoutKey(7, 12), .stream = 1},
                                 {.key = MakeDropoutKey(7, 11), .stream = 2}};
  const uint32_t half = DropoutThreshold(0.5f);
  for (const DropoutDraws& other : others) {
    int same = 0;
    for (int64_t i = 0; i < 4000; ++i) {
      same += DropsElement(draws, i, half) == DropsElement(other, i, half) ? 1 : 0;
    }
    EXPECT_NEAR(same, 2000, 150);
  }
}

TEST_P(BasicSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2, 3}, std::vector<float>(6));
  const Tensor y = Upload({3, 2}, std::vector<float>(6));
  ExpectInvalid(kernels::Basic(kernels(), {.op = BasicOp::kRelu, .a = y, .out = x}),
                {"Basic", "a is [3, 2], expected [2, 3]"});
  ExpectInvalid(kernels::Basic(kernels(), {.op = BasicOp::kRelu, .a = x, .b = y, .out = x}),
                {"Basic", "b is given to an operation that does not read it"});
  ExpectInvalid(kernels::Basic(kernels(), {.op = BasicOp::kFill, .a = x, .out = x}),
                {"Basic", "a is given"});
  ExpectInvalid(kernels::Basic(kernels(), {.op = BasicOp::kMultiply, .a = x, .out = x}),
                {"Basic", "b is undefined"});
  ExpectInvalid(
      kernels::Basic(kernels(),
                     {.op = BasicOp::kRelu, .a = x, .out = Unwritten({2, 3}, DType::kBFloat16)}),
      {"Basic", "a is fp32, expected bf16 as out"});
  ExpectInvalid(
      kernels::Basic(
          kernels(),
          {.op = BasicOp::kMultiply, .a = x, .b = x, .out = Unwritten({2, 3}, DType::kBFloat16)}),
      {"Basic", "a is fp32, expected bf16 as out"});
  ExpectInvalid(
      kernels::Basic(
          kernels(),
          {.op = BasicOp::kMultiply, .a = x, .b = Unwritten({2, 3}, DType::kBFloat16), .out = x}),
      {"Basic", "b is bf16, expected fp32 as a"});
  ExpectInvalid(
      kernels::Basic(kernels(), {.op = BasicOp::kDropout, .a = x, .out = x, .scalar = 1.0f}),
      {"Basic", "scalar is 1", "below 1"});
  ExpectInvalid(
      kernels::Basic(kernels(), {.op = BasicOp::kMeanBackward, .a = x, .out = y, .group = 2}),
      {"Basic", "out has 3 rows", "group of 2"});
  ExpectInvalid(kernels::Basic(kernels(), {.op = BasicOp::kMean, .a = x, .out = x, .group = 0}),
                {"Basic", "group is 0"});
}

INSTANTIATE_TEST_SUITE_P(Devices, BasicSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
