// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/logit_transform.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/host_floats.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/distillation.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

using Doubles = std::vector<double>;

constexpr int64_t kVocabulary = 11;
constexpr int64_t kRows = 6;
constexpr int64_t kDim = 5;
const std::vector<int32_t> kTargets = {1, 3, -100, 0, 10, 1};
constexpr double kCounted = 5;

// A logit x becomes scale * silu(x).
class ScaledSilu : public LogitTransform {
 public:
  explicit ScaledSilu(float scale) : scale_(scale) {}

  absl::Status Forward(Context& context, const Tensor& logits, const Tensor& out) const override {
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(context.kernels(), {.op = BasicOp::kSilu, .a = logits, .out = out}));
    return Scale(context, out);
  }
  absl::Status Backward(Context& context, const Tensor& logits,
                        const Tensor& gradients) const override {
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(),
        {.op = BasicOp::kSiluBackward, .a = logits, .b = gradients, .out = gradients}));
    return Scale(context, gradients);
  }
  double Of(double x) const { return static_cast<double>(scale_) * x / (1 + std::exp(-x)); }

 private:
  absl::Status Scale(Context& context, const Tensor& x) const {
    return kernels::Basic(context.kernels(), {.a = x, .out = x, .scalar = scale_});
  }
  const float scale_;
};

Doubles Host(const Tensor& tensor) {
  const std::vector<float> values = ToHostFloats(tensor).value();
  return Doubles(values.begin(), values.end());
}

// transform(hidden * weight^T) of one row.
Doubles LogitsOf(const Doubles& hidden, size_t row, const Doubles& weight,
                 const ScaledSilu& transform) {
  Doubles logits(kVocabulary);
  for (size_t i = 0; i < kVocabulary; ++i) {
    for (size_t j = 0; j < kDim; ++j) logits[i] += hidden[row * kDim + j] * weight[i * kDim + j];
    logits[i] = transform.Of(logits[i]);
  }
  return logits;
}

// log(softmax(x / temperature)).
Doubles LogSoftmax(Doubles x, double temperature) {
  for (double& value : x) value /= temperature;
  return testing::LogSoftmax(std::move(x));
}

// The derivatives of `loss` by each element of `at`, by central differences.
template <typename Loss>
Doubles Differences(Doubles at, const Loss& loss) {
  constexpr double kStep = 1e-5;
  Doubles result;
  for (double& x : at) {
    const double here = x;
    x = here + kStep;
    const double ahead = loss(at);
    x = here - kStep;
    result.push_back((ahead - loss(at)) / (2 * kStep));
    x = here;
  }
  return result;
}

// The sum of losses, each weighted by its place.
class WeightedSum : public TokenObjective {
 public:
  absl::StatusOr<Result> Apply(Context& context, const Tensor& losses, const Tensor&) override {
    std::vector<float> weights = losses.ToHost<float>().value();
    float sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      sum += weights[i] * static_cast<float>(i);
      weights[i] = static_cast<float>(i);
    }
    Result result;
    ZEROTH_ASSIGN_OR_RETURN(
        result.loss,
        Tensor::FromHost<float>(context.device(), Shape({1}), {sum}, MemoryCategory::kActivations));
    ZEROTH_ASSIGN_OR_RETURN(
        result.weights,
        Tensor::FromHost<float>(context.device(), losses.shape(), absl::MakeConstSpan(weights),
                                MemoryCategory::kActivations));
    return result;
  }
};

class LogitTransformTest : public ::testing::TestWithParam<DType> {
 protected:
  enum class Kind { kCrossEntropy, kTeacher, kObjective };
  void ExpectLossAndGradients(Kind kind);
};

void LogitTransformTest::ExpectLossAndGradients(Kind kind) {
  const ScaledSilu of_student(1.5f), of_teacher(3.0f);
  testing::Bench bench;
  Context& context = *bench.context;
  context.set_loss_scale(8);
  Parameter head("head", Shape({kVocabulary, kDim}));
  bench.Own(head, 1.0f, GetParam());
  const auto draw = [&](const Shape& shape) {
    return bench.Upload(shape, bench.Draw(shape.numel()), GetParam());
  };
  const Value input = context.MakeValue(draw(Shape({2, 3, kDim})));
  const Distillation teacher = {
      .teacher = {draw(Shape({2, 3, kDim})), draw(head.shape()), /*logit_cap=*/0, &of_teacher},
      .options = {0.25f, 2.0f, Divergence::kForward}};
  const Doubles hidden = Host(input.data), weight = Host(head.data());
  const Doubles teacher_hidden = Host(teacher.teacher.hidden);
  const Doubles teacher_weight = Host(teacher.teacher.weight);
  const auto loss_at = [&](const Doubles& h, const Doubles& w) {
    double sum = 0;
    for (size_t row = 0; row < kRows; ++row) {
      if (kTargets[row] < 0) continue;
      const Doubles logits = LogitsOf(h, row, w, of_student);
      const double next = -LogSoftmax(logits, 1)[static_cast<size_t>(kTargets[row])];
      if (kind == Kind::kCrossEntropy) sum += next / kCounted;
      if (kind == Kind::kObjective) sum += next * static_cast<double>(row);
      if (kind != Kind::kTeacher) continue;
      const Doubles q = LogSoftmax(logits, 2);
      const Doubles p = LogSoftmax(LogitsOf(teacher_hidden, row, teacher_weight, of_teacher), 2);
      double kl = 0;
      for (size_t i = 0; i < kVocabulary; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
      sum += (0.25 * 4 * kl + 0.75 * next) / kCounted;
    }
    return sum;
  };

  WeightedSum objective;
  const Tensor targets =
      Tensor::FromHost<int32_t>(*bench.device, Shape({2, 3}), absl::MakeConstSpan(kTargets),
                                MemoryCategory::kActivations)
          .value();
  const auto run = [&] {
    return DividedCrossEntropyOp(context, input, head, targets, /*logit_cap=*/0, &of_student);
  };
  const auto with_teacher = [&] {
    const auto scope = context.UseDistillation(teacher);
    return run();
  };
  const auto with_objective = [&] {
    const auto scope = context.UseObjective(objective);
    return run();
  };
  const absl::StatusOr<Value> loss = kind == Kind::kTeacher     ? with_teacher()
                                     : kind == Kind::kObjective ? with_objective()
                                                                : run();
  ASSERT_TRUE(loss.ok()) << loss.status();
  ASSERT_TRUE(Backward(context, *loss).ok());
  const double expected = loss_at(hidden, weight);
  EXPECT_NEAR(Host(loss->data)[0], expected, 1e-6 * expected);
  const double tolerance = GetParam() == DType::kFloat32 ? 2e-6 : 5e-3;
  const auto by_hidden = [&](const Doubles& h) { return 8 * loss_at(h, weight); };
  const auto by_weight = [&](const Doubles& w) { return 8 * loss_at(hidden, w); };
  EXPECT_LT(testing::RelativeDistance(ToHostFloats(input.node->grad).value(),
                                      Differences(hidden, by_hidden)),
            tolerance);
  EXPECT_LT(
      testing::RelativeDistance(ToHostFloats(head.grad()).value(), Differences(weight, by_weight)),
      tolerance);
}

// Against a loop in double and its central differences.
TEST_P(LogitTransformTest, CrossEntropy) { ExpectLossAndGradients(Kind::kCrossEntropy); }
TEST_P(LogitTransformTest, Teacher) { ExpectLossAndGradients(Kind::kTeacher); }
TEST_P(LogitTransformTest, Objective) { ExpectLossAndGradients(Kind::kObjective); }

INSTANTIATE_TEST_SUITE_P(Types, LogitTransformTest,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& dtype) { return std::string(DTypeName(dtype.param)); });

TEST(TransformLogitsTest, RefusesATransformAndACap) {
  testing::Bench bench;
  const ScaledSilu transform(1);
  const Tensor logits = bench.Upload(Shape({1}), {1});
  EXPECT_EQ(TransformLogits(*bench.context, logits, /*cap=*/2, &transform, logits),
            absl::UnimplementedError(
                "logits: the model has LogitCap() = 2 and a logit_transform(), expected one of "
                "them; apply the cap in the transform, and return 0 from LogitCap()"));
}

}  // namespace
}  // namespace zeroth
