// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/logit_transform.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/distillation.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/loss.h"
#include "zeroth/nn/testing/capped_by_transform.h"
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

  absl::Status Forward(Context& context, const Tensor& logits) const override {
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(context.kernels(), {.op = BasicOp::kSilu, .a = logits, .out = logits}));
    return Scale(context, logits);
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

// A head and hidden states of one type.
struct Head {
  explicit Head(DType type) : dtype(type) {
    weight.set_data(Draw(weight.shape()));
    weight.set_gradient_provider([this]() -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(Tensor gradient, bench.context->EmptyLike(weight.data()));
      weight.set_grad(std::move(gradient));
      return absl::OkStatus();
    });
    input = bench.context->MakeValue(Draw(Shape({2, 3, kDim})));
  }
  Tensor Draw(const Shape& shape) {
    return CastTo(*bench.context, bench.Upload(shape, bench.Draw(shape.numel())), dtype).value();
  }

  const DType dtype;
  testing::Bench bench;
  Parameter weight{"head", Shape({kVocabulary, kDim})};
  Value input;
  Tensor targets =
      Tensor::FromHost<int32_t>(*bench.device, Shape({2, 3}), absl::MakeConstSpan(kTargets),
                                MemoryCategory::kActivations)
          .value();

  Doubles Host(const Tensor& tensor) {
    const std::vector<float> values =
        CastTo(*bench.context, tensor, DType::kFloat32).value().ToHost<float>().value();
    return Doubles(values.begin(), values.end());
  }
};

double Distance(const Doubles& a, const Doubles& b) {
  EXPECT_EQ(a.size(), b.size());
  double error = 0, square = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    square += b[i] * b[i];
  }
  return std::sqrt(error / square);
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
  double sum = 0;
  for (const double value : x) sum += std::exp(value / temperature);
  for (double& value : x) value = value / temperature - std::log(sum);
  return x;
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

TEST(LogitTransformTest, LossAndGradientsAreThoseOfALoopInDouble) {
  const ScaledSilu of_student(1.5f), of_teacher(3.0f);
  const DistillationOptions distillation = {0.25f, 2.0f, Divergence::kForward};
  for (const bool has_teacher : {false, true}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + (has_teacher ? " with a teacher" : ""));
      Head head(dtype);
      const Tensor teacher_hidden = head.Draw(Shape({2, 3, kDim}));
      const Tensor teacher_weight = head.Draw(head.weight.shape());
      const Distillation teacher = {
          .teacher = {teacher_hidden, teacher_weight, /*logit_cap=*/0, &of_teacher},
          .options = distillation};
      const Doubles hidden = head.Host(head.input.data), weight = head.Host(head.weight.data());
      const Doubles of_rows = head.Host(teacher_hidden), of_columns = head.Host(teacher_weight);
      const auto loss_at = [&](const Doubles& h, const Doubles& w) {
        double sum = 0;
        for (size_t row = 0; row < kRows; ++row) {
          if (kTargets[row] < 0) continue;
          const Doubles logits = LogitsOf(h, row, w, of_student);
          const double next = -LogSoftmax(logits, 1)[static_cast<size_t>(kTargets[row])];
          const Doubles q = LogSoftmax(logits, 2);
          const Doubles p = LogSoftmax(LogitsOf(of_rows, row, of_columns, of_teacher), 2);
          double kl = 0;
          for (size_t i = 0; i < kVocabulary; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
          sum += has_teacher ? 0.25 * 4 * kl + 0.75 * next : next;
        }
        return sum / kCounted;
      };

      const auto run = [&] {
        return DividedCrossEntropyOp(*head.bench.context, head.input, head.weight, head.targets,
                                     /*logit_cap=*/0, &of_student);
      };
      const auto with_teacher = [&] {
        const auto scope = head.bench.context->UseDistillation(teacher);
        return run();
      };
      const absl::StatusOr<Value> loss = has_teacher ? with_teacher() : run();
      ASSERT_TRUE(loss.ok()) << loss.status();
      ASSERT_TRUE(Backward(*head.bench.context, *loss).ok());
      const double expected = loss_at(hidden, weight);
      EXPECT_NEAR(head.Host(loss->data)[0], expected, 1e-6 * expected);
      const double tolerance = dtype == DType::kFloat32 ? 2e-6 : 5e-3;
      const auto by_hidden = [&](const Doubles& h) { return loss_at(h, weight); };
      const auto by_weight = [&](const Doubles& w) { return loss_at(hidden, w); };
      EXPECT_LT(Distance(head.Host(head.input.node->grad), Differences(hidden, by_hidden)),
                tolerance);
      EXPECT_LT(Distance(head.Host(head.weight.grad()), Differences(weight, by_weight)), tolerance);
    }
  }
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

TEST(LogitTransformTest, ASoftCapHasTheLossAndGradientsOfLogitCap) {
  constexpr float kCap = 0.8f;
  const testing::SoftCap transform(kCap);
  for (const bool has_objective : {false, true}) {
    std::vector<Doubles> losses, dhidden, dweight;
    for (const int kind : {0, 1, 2}) {
      Head head(DType::kFloat32);
      Context& context = *head.bench.context;
      context.set_loss_scale(8);
      const auto run = [&]() -> absl::StatusOr<Value> {
        if (kind == 0) {
          return DividedCrossEntropyOp(context, head.input, head.weight, head.targets, 0,
                                       &transform);
        }
        if (kind == 1) {
          return DividedCrossEntropyOp(context, head.input, head.weight, head.targets, kCap);
        }
        return LinearCrossEntropyOp(context, head.input, head.weight, head.targets, kCap);
      };
      WeightedSum objective;
      const auto with_objective = [&] {
        const auto scope = context.UseObjective(objective);
        return run();
      };
      const absl::StatusOr<Value> loss = has_objective ? with_objective() : run();
      ASSERT_TRUE(loss.ok()) << loss.status();
      ASSERT_TRUE(Backward(context, *loss).ok());
      losses.push_back(head.Host(loss->data));
      dhidden.push_back(head.Host(head.input.node->grad));
      dweight.push_back(head.Host(head.weight.grad()));
    }
    EXPECT_EQ(losses[0], losses[1]);
    for (const size_t other : {1, 2}) {
      SCOPED_TRACE(other);
      EXPECT_LT(Distance(losses[0], losses[other]), 1e-6);
      EXPECT_LT(Distance(dhidden[0], dhidden[other]), 1e-6);
      EXPECT_LT(Distance(dweight[0], dweight[other]), 1e-6);
    }
  }
}

TEST(LogitTransformTest, ATransformAndACapAreRefused) {
  Head head(DType::kFloat32);
  const testing::SoftCap transform(1);
  const absl::Status status =
      DividedCrossEntropyOp(*head.bench.context, head.input, head.weight, head.targets,
                            /*logit_cap=*/2, &transform)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("LogitCap() = 2 and a logit_transform(); expected one of them"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace zeroth
