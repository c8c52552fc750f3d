// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/basic.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

using testing::Bench;
using testing::CheckGradients;

using Inputs = std::vector<Value>;

std::vector<float> Host(const Value& value) {
  const absl::StatusOr<std::vector<float>> values = value.data.ToHost<float>();
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

Value Input(Bench& bench, const Shape& shape) {
  return bench.context->MakeValue(bench.Upload(shape, bench.Draw(shape.numel())));
}

void ExpectRefused(const absl::Status& status, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& word : words) {
    EXPECT_NE(status.ToString().find(word), std::string::npos) << status;
  }
}

// On every kind of device that is linked in and available.
class BasicOpTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const absl::Status status = DeviceRegistry::Create(GetParam(), DeviceOptions()).status();
    if (!status.ok() && GetParam() != "cpu") GTEST_SKIP() << status;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BasicOpTest, ::testing::ValuesIn(DeviceRegistry::Types()),
                         [](const auto& device) { return device.param; });

// An input that is used twice adds both gradients up, here and below.
TEST_P(BasicOpTest, MatmulsAndMultiples) {
  Bench bench(GetParam());
  CheckGradients(bench, {Shape({3, 5}), Shape({3, 5})}, {},
                 [](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                   ZEROTH_ASSIGN_OR_RETURN(const Value ab, MultiplyOp(context, in[0], in[1]));
                   ZEROTH_ASSIGN_OR_RETURN(const Value half, ScaleOp(context, in[0], 0.5f));
                   return MultiplyOp(context, ab, half);
                 });
  CheckGradients(bench, {Shape({4})}, {}, [](Context& context, const Inputs& in) {
    return MultiplyOp(context, in[0], in[0]);
  });
  ExpectRefused(
      MultiplyOp(*bench.context, Input(bench, Shape({2, 3})), Input(bench, Shape({3, 2}))).status(),
      {"multiply", "[2, 3]", "[3, 2]"});
}

TEST_P(BasicOpTest, Activations) {
  for (const ActivationFunction function :
       {ActivationFunction::kRelu, ActivationFunction::kGelu, ActivationFunction::kSilu,
        ActivationFunction::kTanh, ActivationFunction::kSigmoid}) {
    Bench bench(GetParam());
    // Squared, so that the slope is continuous where a ReLU bends.
    CheckGradients(bench, {Shape({3, 7})}, {},
                   [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                     ZEROTH_ASSIGN_OR_RETURN(const Value y, ActivationOp(context, in[0], function));
                     return MultiplyOp(context, y, y);
                   });
    const Value empty = Input(bench, Shape({0, 7}));
    EXPECT_TRUE(ActivationOp(*bench.context, empty, function).ok());
  }
}

TEST_P(BasicOpTest, MatmulIsTheDefinitionInEveryTransposition) {
  const int64_t m = 3, k = 5, n = 4;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Shape a_shape = transpose_a ? Shape({2, 3, k, m}) : Shape({2, 3, m, k});
      const Shape b_shape = transpose_b ? Shape({2, 3, n, k}) : Shape({2, 3, k, n});
      Bench bench(GetParam());
      CheckGradients(bench, {a_shape, b_shape}, {}, [&](Context& context, const Inputs& in) {
        return MatmulOp(context, in[0], in[1], transpose_a, transpose_b);
      });
      const Value a = Input(bench, a_shape);
      const Value b = Input(bench, b_shape);
      const absl::StatusOr<Value> c = MatmulOp(*bench.context, a, b, transpose_a, transpose_b);
      ASSERT_TRUE(c.ok()) << c.status();
      ASSERT_EQ(c->data.shape(), Shape({2, 3, m, n}));
      const std::vector<float> av = Host(a), bv = Host(b), cv = Host(*c);
      for (int64_t i = 0; i < c->data.numel(); ++i) {
        const int64_t batch = i / (m * n), row = i / n % m, col = i % n;
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) {
          const int64_t at_a = batch * m * k + (transpose_a ? j * m + row : row * k + j);
          const int64_t at_b = batch * k * n + (transpose_b ? col * k + j : j * n + col);
          sum += static_cast<double>(av[static_cast<size_t>(at_a)]) * bv[static_cast<size_t>(at_b)];
        }
        EXPECT_NEAR(cv[static_cast<size_t>(i)], sum, 1e-5);
      }
    }
  }
}

TEST_P(BasicOpTest, MatmulOfNothingAndOfWhatDoesNotFit) {
  Bench bench(GetParam());
  const absl::StatusOr<Value> nothing =
      MatmulOp(*bench.context, Input(bench, Shape({2, 0, 3})), Input(bench, Shape({2, 3, 4})));
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(nothing->data.shape(), Shape({2, 0, 4}));
  const absl::StatusOr<Value> zeros =
      MatmulOp(*bench.context, Input(bench, Shape({2, 0})), Input(bench, Shape({0, 3})));
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_EQ(Host(*zeros), std::vector<float>(6, 0.0f));
  const Value a = Input(bench, Shape({2, 3, 4}));
  ExpectRefused(MatmulOp(*bench.context, a, Input(bench, Shape({2, 3, 5}))).status(),
                {"matmul", "[2, 3, 4]", "[2, 3, 5]"});
  ExpectRefused(MatmulOp(*bench.context, a, Input(bench, Shape({1, 4, 5}))).status(),
                {"matmul", "[1, 4, 5]"});
}

TEST_P(BasicOpTest, Softmax) {
  Bench bench(GetParam());
  CheckGradients(bench, {Shape({2, 3, 5})}, {},
                 [](Context& context, const Inputs& in) { return SoftmaxOp(context, in[0]); });
}

TEST_P(BasicOpTest, MeansAlongEachDimensionAndOfAll) {
  Bench bench(GetParam());
  const Shape shape({3, 4, 5});
  const Value x = Input(bench, shape);
  const std::vector<float> values = Host(x);
  for (const int dim : {0, 1, 2, -1, -3}) {
    CheckGradients(bench, {shape}, {},
                   [&](Context& context, const Inputs& in) { return MeanOp(context, in[0], dim); });
    const absl::StatusOr<Value> mean = MeanOp(*bench.context, x, dim);
    ASSERT_TRUE(mean.ok()) << mean.status();
    const int at = (dim + 3) % 3;
    int64_t inner = 1;
    for (int i = at + 1; i < 3; ++i) inner *= shape.dim(i);
    const int64_t size = shape.dim(at);
    ASSERT_EQ(mean->data.numel() * size, shape.numel());
    const std::vector<float> means = Host(*mean);
    for (int64_t i = 0; i < mean->data.numel(); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < size; ++j) {
        sum += values[static_cast<size_t>((i / inner * size + j) * inner + i % inner)];
      }
      EXPECT_NEAR(means[static_cast<size_t>(i)], sum / static_cast<double>(size), 1e-6);
    }
  }
  CheckGradients(bench, {shape}, {},
                 [](Context& context, const Inputs& in) { return MeanOp(context, in[0]); });
  ExpectRefused(MeanOp(*bench.context, Input(bench, Shape({3, 0})), 1).status(),
                {"mean", "[3, 0]"});
  ExpectRefused(MeanOp(*bench.context, x, 3).status(), {"mean", "dimension 3", "[3, 4, 5]"});
}

// Slices of the middle, concatenated in another order; one part is used twice.
TEST_P(BasicOpTest, SlicesAndConcatenations) {
  for (const int dim : {0, 1, -1}) {
    Bench bench(GetParam());
    const Shape shape({5, 5, 5});
    CheckGradients(bench, {shape, shape}, {},
                   [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                     ZEROTH_ASSIGN_OR_RETURN(const Value a, SliceOp(context, in[0], dim, 1, 2));
                     ZEROTH_ASSIGN_OR_RETURN(const Value b, SliceOp(context, in[0], dim, 0, 4));
                     return ConcatOp(context, {b, in[1], a, a}, dim);
                   });
  }
  Bench bench(GetParam());
  const Value x = bench.context->MakeValue(bench.Upload(Shape({2, 3}), {1, 2, 3, 4, 5, 6}));
  const absl::StatusOr<Value> right = SliceOp(*bench.context, x, 1, 1, 2);
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_EQ(Host(*right), (std::vector<float>{2, 3, 5, 6}));
  const absl::StatusOr<Value> joined = ConcatOp(*bench.context, {*right, x}, -1);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(Host(*joined), (std::vector<float>{2, 3, 1, 2, 3, 5, 6, 4, 5, 6}));
  const absl::StatusOr<Value> none = SliceOp(*bench.context, x, 0, 2, 0);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->data.shape(), Shape({0, 3}));
  ExpectRefused(SliceOp(*bench.context, x, 1, 2, 2).status(), {"slice", "2 from 2", "[2, 3]"});
  ExpectRefused(ConcatOp(*bench.context, {x, *right}, 0).status(), {"concat", "[2, 2]", "[2, 3]"});
  ExpectRefused(ConcatOp(*bench.context, {}, 0).status(), {"concat", "no tensors"});
}

TEST_P(BasicOpTest, Reshape) {
  Bench bench(GetParam());
  CheckGradients(bench, {Shape({2, 6})}, {},
                 [](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                   ZEROTH_ASSIGN_OR_RETURN(const Value y, ReshapeOp(context, in[0], Shape({3, 4})));
                   return SoftmaxOp(context, y);
                 });
  ExpectRefused(ReshapeOp(*bench.context, Input(bench, Shape({2, 6})), Shape({5})).status(),
                {"reshape", "[2, 6]", "[5]"});
}

TEST_P(BasicOpTest, DropoutHasTheGradientOfWhatItKept) {
  Bench bench(GetParam());
  bench.context->set_draws(StepDraws{.seed = 3, .step = 2});
  CheckGradients(bench, {Shape({6, 20})}, {}, [](Context& context, const Inputs& in) {
    return DropoutOp(context, in[0], 0.4f, "drop");
  });
}

// Samples 0 to 5 in one batch, and in two: the same elements are dropped.
TEST_P(BasicOpTest, DropoutDependsOnTheSampleAndNotOnTheBatchItIsIn) {
  Bench bench(GetParam());
  bench.tape.set_recording(false);
  const std::vector<float> ones(6 * 50, 1.0f);
  const auto drop = [&](int64_t first, int64_t count, int64_t step, const char* name) {
    bench.context->set_draws(StepDraws{.seed = 3, .step = step, .first_sample = first});
    Value x;
    x.data =
        bench.Upload(Shape({count, 50}), std::vector<float>(static_cast<size_t>(count) * 50, 1));
    const absl::StatusOr<Value> y = DropoutOp(*bench.context, x, 0.5f, name);
    EXPECT_TRUE(y.ok()) << y.status();
    return Host(*y);
  };
  const std::vector<float> whole = drop(0, 6, 1, "a");
  std::vector<float> parts = drop(0, 4, 1, "a");
  const std::vector<float> rest = drop(4, 2, 1, "a");
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole, parts);
  EXPECT_NE(whole, drop(0, 6, 2, "a"));
  EXPECT_NE(whole, drop(0, 6, 1, "b"));
}

// x sigmoid(x) with some elements dropped, or x itself at a rate of 0.
struct Dropping : Module {
  explicit Dropping(float of) : Module("dropping"), rate(of) {}
  absl::StatusOr<Value> Forward(Context& context, const Value& x) {
    return HookedOne(context, x, [this](Context& c, const Value& in) -> absl::StatusOr<Value> {
      if (rate == 0) return DropoutOp(c, in, rate, name());
      ZEROTH_ASSIGN_OR_RETURN(const Value y, ActivationOp(c, in, ActivationFunction::kSilu));
      return DropoutOp(c, y, rate, name());
    });
  }
  float rate;
};

// Two forwards before one backward, each with different draws.
TEST_P(BasicOpTest, RecomputationRepeatsTheDrawsOfForward) {
  for (const float rate : {0.0f, 0.5f}) {
    std::vector<std::vector<float>> gradients;
    for (const auto recomputes : {Module::Recomputes::kNothing, Module::Recomputes::kAll}) {
      Bench bench(GetParam());
      Dropping dropping(rate);
      dropping.set_recomputes(recomputes);
      const Value x = Input(bench, Shape({4, 8}));
      const auto loss = [&]() -> absl::StatusOr<Value> {
        Value sum = x;  // so that x has a gradient before the dropout's
        for (const int64_t step : {1, 2}) {
          bench.context->set_draws(StepDraws{.seed = 3, .step = step});
          ZEROTH_ASSIGN_OR_RETURN(const Value y, dropping.Forward(*bench.context, x));
          ZEROTH_ASSIGN_OR_RETURN(sum, MultiplyOp(*bench.context, sum, y));
        }
        bench.context->set_draws(std::nullopt);
        return MeanOp(*bench.context, sum);
      }();
      ASSERT_TRUE(loss.ok()) << loss.status();
      const absl::Status status = Backward(*bench.context, *loss);
      ASSERT_TRUE(status.ok()) << status;
      gradients.push_back(Host({x.node->grad}));
    }
    EXPECT_EQ(gradients[0], gradients[1]) << rate;
  }
}

// An input that nobody differentiates has no node.
TEST_P(BasicOpTest, AnInputIsComputedAgainAsItself) {
  Bench bench(GetParam());
  Parameter weight("weight", Shape({4, 4}));
  bench.Own(weight);
  Dropping dropping(0);
  dropping.set_recomputes(Module::Recomputes::kAll);
  bench.context->set_draws(StepDraws{});
  const absl::StatusOr<Value> same =
      dropping.Forward(*bench.context, {bench.Upload(Shape({3, 4}), bench.Draw(12))});
  ASSERT_TRUE(same.ok()) << same.status();
  const absl::StatusOr<Value> y =
      LinearOp(*bench.context, *same, {{&weight, nullptr}}, WeightLayout::kOutIn);
  ASSERT_TRUE(y.ok()) << y.status();
  const absl::StatusOr<Value> loss = MeanOp(*bench.context, *y);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const absl::Status status = Backward(*bench.context, *loss);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(BasicOpTest, DropoutWithoutDrawsIsForEvaluationOnly) {
  Bench bench(GetParam());
  const Value x = Input(bench, Shape({2, 3}));
  EXPECT_EQ(DropoutOp(*bench.context, x, 0.5f, "drop").status().code(),
            absl::StatusCode::kFailedPrecondition);
  bench.tape.set_recording(false);
  const absl::StatusOr<Value> same = DropoutOp(*bench.context, x, 0.5f, "drop");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(Host(*same), Host(x));
  ExpectRefused(DropoutOp(*bench.context, x, 1.0f, "drop").status(), {"'drop'", "rate of 1"});
}

TEST_P(BasicOpTest, BackwardOfALossIsScaled) {
  Bench bench(GetParam());
  Parameter weight("weight", Shape({4, 4}));
  bench.Own(weight);
  bench.context->set_loss_scale(8.0f);
  const Value x = Input(bench, Shape({3, 4}));
  const absl::StatusOr<Value> y =
      LinearOp(*bench.context, x, {{&weight, nullptr}}, WeightLayout::kOutIn);
  ASSERT_TRUE(y.ok()) << y.status();
  const absl::StatusOr<Value> loss = MeanOp(*bench.context, *y);
  ASSERT_TRUE(loss.ok()) << loss.status();
  ASSERT_TRUE(Backward(*bench.context, *loss).ok());
  const std::vector<float> values = Host(x);
  const absl::StatusOr<std::vector<float>> gradient = weight.grad().ToHost<float>();
  ASSERT_TRUE(gradient.ok());
  for (size_t in = 0; in < 4; ++in) {
    const double expected =
        8.0 * (static_cast<double>(values[in]) + values[4 + in] + values[8 + in]) / 12;
    EXPECT_NEAR((*gradient)[in], expected, 1e-5);
  }
  ExpectRefused(Backward(*bench.context, x), {"[3, 4]", "one element"});
}

}  // namespace
}  // namespace zeroth
