// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/distillation.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/attention.h"
#include "zeroth/nn/ops/delta_net.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/embedding.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/ops/loss.h"
#include "zeroth/nn/ops/norm.h"
#include "zeroth/nn/ops/pointwise.h"
#include "zeroth/nn/testing/capped_by_transform.h"
#include "zeroth/nn/testing/gradient_check.h"
#include "zeroth/nn/testing/one_rank.h"

namespace zeroth {
namespace {

using testing::Bench;
using testing::CheckGradients;
using testing::RelativeDistance;

using Inputs = std::vector<Value>;

class LinearOpTest : public ::testing::TestWithParam<WeightLayout> {
 protected:
  Shape WeightShape(int64_t in, int64_t out) const {
    return GetParam() == WeightLayout::kInOut ? Shape({in, out}) : Shape({out, in});
  }
};

TEST(ShortConvolutionOpTest, RefusesWeightsOfOtherShapes) {
  Bench bench;
  KeyValueCache cache(9);
  for (KeyValueCache* const used : {static_cast<KeyValueCache*>(nullptr), &cache}) {
    for (const Shape& shape : {Shape({6, 4}), Shape({6, 1, 0}), Shape({6, 1, 9})}) {
      Parameter weight("weight", shape);
      bench.Own(weight);
      const NoGradient off(bench.tape);
      const auto with_cache = bench.context->UseCache(used);
      const Value x{bench.Upload({1, 2, 6}, bench.Draw(12)), nullptr};
      const absl::Status status = ShortConvolutionOp(*bench.context, x, weight).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    }
  }
}

TEST(ShortConvolutionOpTest, RefusesACacheThatDoesNotFit) {
  Bench bench;
  Parameter weight("weight", Shape({6, 1, 4}));
  bench.Own(weight);
  KeyValueCache cache(9);
  const auto with_cache = bench.context->UseCache(&cache);
  const auto run = [&] {
    const Value x{bench.Upload({1, 2, 6}, bench.Draw(12)), nullptr};
    return ShortConvolutionOp(*bench.context, x, weight).status();
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(run())) << "while recording";
  const NoGradient off(bench.tape);
  bench.context->set_document_starts(
      Tensor::FromHost<int32_t>(*bench.device, Shape({1, 2}), {0, 1}, MemoryCategory::kActivations)
          .value());
  EXPECT_TRUE(absl::IsFailedPrecondition(run())) << "with packed documents";
  bench.context->set_document_starts({});
  EXPECT_TRUE(run().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(run())) << "twice in one forward";
  cache.Grow(2);
  EXPECT_TRUE(run().ok());
  cache.Discard();
  EXPECT_TRUE(run().ok());
}

TEST_P(LinearOpTest, GradientsOfSeveralProjectionsOfOneInput) {
  Bench bench;
  Parameter q("q", WeightShape(5, 7)), k("k", WeightShape(5, 3)), bias("bias", Shape({3}));
  for (Parameter* parameter : {&q, &k, &bias}) bench.Own(*parameter);
  CheckGradients(bench, {Shape({2, 3, 5})}, {&q, &k, &bias},
                 [&](Context& context, const Inputs& in) {
                   return LinearOp(context, in[0], {{&q, nullptr}, {&k, &bias}}, GetParam());
                 });
}

TEST_P(LinearOpTest, AWeightUsedTwiceAccumulatesBothContributions) {
  Bench bench;
  Parameter weight("weight", WeightShape(4, 4));
  bench.Own(weight);
  CheckGradients(bench, {Shape({3, 4})}, {&weight},
                 [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                   const absl::StatusOr<Value> once =
                       LinearOp(context, in[0], {{&weight, nullptr}}, GetParam());
                   if (!once.ok()) return once.status();
                   return LinearOp(context, *once, {{&weight, nullptr}}, GetParam());
                 });
}

TEST_P(LinearOpTest, AFrozenWeightTakesNoGradientButPassesItOn) {
  Bench bench;
  Parameter weight("weight", WeightShape(4, 6)), bias("bias", Shape({6}));
  weight.set_requires_grad(false);
  for (Parameter* parameter : {&weight, &bias}) bench.Own(*parameter);
  CheckGradients(bench, {Shape({3, 4})}, {&weight, &bias}, [&](Context& context, const Inputs& in) {
    return LinearOp(context, in[0], {{&weight, &bias}}, GetParam());
  });
}

TEST_P(LinearOpTest, AFusedGeluKeepsItsInputForBackward) {
  Bench bench;
  Parameter weight("w", WeightShape(5, 7)), bias("b", Shape({7}));
  bench.Own(weight);
  bench.Own(bias);
  CheckGradients(
      bench, {Shape({2, 3, 5})}, {&weight, &bias}, [&](Context& context, const Inputs& in) {
        return LinearOp(context, in[0], {{&weight, &bias}}, GetParam(), Activation::kGelu);
      });
}

TEST_P(LinearOpTest, AFusedGeluTakesOnePartAndAFusedSiluNone) {
  Bench bench;
  Parameter first("a", WeightShape(4, 6)), second("b", WeightShape(4, 6));
  bench.Own(first);
  bench.Own(second);
  const Value x = bench.context->MakeValue(bench.Upload(Shape({2, 4}), bench.Draw(8)));
  const std::vector<LinearPart> parts = {{&first, nullptr}, {&second, nullptr}};
  EXPECT_EQ(LinearOp(*bench.context, x, parts, GetParam(), Activation::kGelu).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LinearOp(*bench.context, x, {{&first, nullptr}}, GetParam(), Activation::kSilu)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(LinearOpTest, WrongWidthNamesTheWeightAndBothShapes) {
  Bench bench;
  Parameter weight("fc.weight", WeightShape(4, 6));
  bench.Own(weight);
  const Value x = bench.context->MakeValue(bench.Upload(Shape({2, 5}), bench.Draw(10)));
  const absl::Status status =
      LinearOp(*bench.context, x, {{&weight, nullptr}}, GetParam()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("'fc.weight'"), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("[2, 5]"), std::string::npos) << status;
}

TEST_P(LinearOpTest, AParameterThatNobodyGatheredIsNamed) {
  Bench bench;
  Parameter weight("h.0.weight", WeightShape(4, 6));
  const Value x = bench.context->MakeValue(bench.Upload(Shape({2, 4}), bench.Draw(8)));
  const absl::Status status =
      LinearOp(*bench.context, x, {{&weight, nullptr}}, GetParam()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.ToString().find("'h.0.weight' is not gathered"), std::string::npos) << status;
}

INSTANTIATE_TEST_SUITE_P(Layouts, LinearOpTest,
                         ::testing::Values(WeightLayout::kInOut, WeightLayout::kOutIn));

TEST(NormOpTest, EitherKindWithAndWithoutResidual) {
  for (const bool has_beta : {false, true}) {
    for (const bool with_residual : {false, true}) {
      Bench bench;
      Parameter gamma("gamma", Shape({9})), beta("beta", Shape({9}));
      std::vector<Parameter*> parameters = {&gamma};
      if (has_beta) parameters.push_back(&beta);
      for (Parameter* parameter : parameters) bench.Own(*parameter);
      std::vector<Shape> shapes(with_residual ? 2 : 1, Shape({2, 3, 9}));
      // The sum is used as well, so that its two gradients meet.
      CheckGradients(bench, shapes, parameters,
                     [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                       const Value residual = with_residual ? in[1] : Value();
                       const absl::StatusOr<NormResult> norm = NormOp(
                           context, in[0], residual, gamma, has_beta ? &beta : nullptr, 1e-5f);
                       if (!norm.ok()) return norm.status();
                       return AddOp(context, norm->sum, norm->normalized);
                     });
    }
  }
}

// Two of 6 heads in 4 pieces.
TEST(NormOpTest, OfHeadsInPieces) {
  Bench bench;
  testing::OneRank ranks(4);
  bench.context->set_tensor_ranks(&ranks);
  Parameter gamma("gamma", Shape({5}));
  bench.Own(gamma);
  CheckGradients(bench, {Shape({2, 3, 6, 5})}, {&gamma},
                 [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                   const absl::StatusOr<NormResult> norm =
                       NormOp(context, in[0], Value(), gamma, nullptr, 1e-5f, /*of_heads=*/true);
                   if (!norm.ok()) return norm.status();
                   return AddOp(context, in[0], norm->normalized);
                 });
}

TEST(NormOpTest, OverAllHeadsInPieces) {
  Bench bench;
  testing::OneRank ranks(4);
  bench.context->set_tensor_ranks(&ranks);
  Parameter gamma("gamma", Shape({24}));
  ASSERT_TRUE(gamma.Divide({kTensorAxis, 0, 0, 1}).ok());
  bench.Own(gamma);
  CheckGradients(bench, {Shape({2, 3, 24})}, {&gamma},
                 [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                   const absl::StatusOr<NormResult> norm =
                       NormOp(context, in[0], Value(), gamma, nullptr, 1e-5f);
                   if (!norm.ok()) return norm.status();
                   return AddOp(context, in[0], norm->normalized);
                 });
  Parameter beta("beta", Shape({24}));
  const Value x = bench.context->MakeValue(bench.Upload(Shape({1, 24}), bench.Draw(24)));
  EXPECT_EQ(NormOp(*bench.context, x, Value(), gamma, &beta, 1e-5f).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(PointwiseOpTest, Gelu) {
  Bench bench;
  CheckGradients(bench, {Shape({3, 7})}, {},
                 [](Context& context, const Inputs& in) { return GeluOp(context, in[0]); });
}

TEST(PointwiseOpTest, SwiGlu) {
  Bench bench;
  CheckGradients(bench, {Shape({3, 10})}, {},
                 [](Context& context, const Inputs& in) { return SwiGluOp(context, in[0]); });
}

// Both summands get the same gradient tensor, which is then added to in two places and turned into
// another in a third.
TEST(PointwiseOpTest, SharedGradientsAreNotWrittenThrough) {
  Bench bench;
  CheckGradients(bench, {Shape({4, 5}), Shape({4, 5})}, {},
                 [](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                   const absl::StatusOr<Value> a = GeluOp(context, in[0]);
                   if (!a.ok()) return a.status();
                   const absl::StatusOr<Value> sum = AddOp(context, *a, in[1]);
                   if (!sum.ok()) return sum.status();
                   const absl::StatusOr<Value> again = AddOp(context, *sum, *a);
                   if (!again.ok()) return again.status();
                   const absl::StatusOr<Value> gelu = GeluOp(context, *sum);
                   if (!gelu.ok()) return gelu.status();
                   return AddOp(context, *again, *gelu);
                 });
}

TEST(AttentionOpTest, GroupedQueriesWithAndWithoutRotation) {
  for (const bool rotate : {false, true}) {
    Bench bench;
    AttentionShape shape;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = 6;
    // A matmul in front, since the rotation works in place.
    CheckGradients(bench, {Shape({2, 5, shape.packed_dim()})}, {},
                   [&](Context& context, const Inputs& in) -> absl::StatusOr<Value> {
                     const absl::StatusOr<Value> own = AddOp(context, in[0], in[0]);
                     if (!own.ok()) return own.status();
                     return AttentionOp(context, *own, shape,
                                        rotate ? std::optional(RopeSpec{100.0}) : std::nullopt);
                   });
  }
}

TEST(EmbeddingOpTest, TablesAndTiedHead) {
  Bench bench;
  Parameter table("wte", Shape({11, 6})), positions("wpe", Shape({8, 6}));
  bench.Own(table);
  bench.Own(positions);
  const std::vector<int32_t> ids = {1, 3, 3, 0, 10, 1, 3, 7};
  const absl::StatusOr<Tensor> tokens = Tensor::FromHost<int32_t>(
      *bench.device, Shape({2, 4}), absl::MakeConstSpan(ids), MemoryCategory::kActivations);
  ASSERT_TRUE(tokens.ok());
  CheckGradients(bench, {}, {&table, &positions}, [&](Context& context, const Inputs&) {
    return EmbeddingOp(context, *tokens, table, &positions);
  });
}

TEST(LossOpTest, GradientsAreThoseOfTheScaledMeanLoss) {
  Bench bench;
  Parameter head("head", Shape({11, 6}));
  bench.Own(head);
  const std::vector<int32_t> ids = {1, 3, -100, 0, 10, 1};
  const absl::StatusOr<Tensor> targets = Tensor::FromHost<int32_t>(
      *bench.device, Shape({2, 3}), absl::MakeConstSpan(ids), MemoryCategory::kActivations);
  ASSERT_TRUE(targets.ok());
  const std::vector<float> hidden = bench.Draw(36);
  const std::vector<float> direction = bench.Draw(36);
  const auto loss_at = [&](float distance) {
    std::vector<float> moved = hidden;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] += distance * direction[i];
    Value value;
    value.data = bench.Upload(Shape({2, 3, 6}), moved);
    const absl::StatusOr<Value> loss = LinearCrossEntropyOp(*bench.context, value, head, *targets);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return static_cast<double>(loss->data.data<float>()[0]);
  };
  bench.tape.set_recording(false);
  const double numeric = (loss_at(1e-2f) - loss_at(-1e-2f)) / 2e-2;
  bench.tape.set_recording(true);
  bench.context->set_loss_scale(8.0f);
  const Value input = bench.context->MakeValue(bench.Upload(Shape({2, 3, 6}), hidden));
  const absl::StatusOr<Value> loss = LinearCrossEntropyOp(*bench.context, input, head, *targets);
  ASSERT_TRUE(loss.ok()) << loss.status();
  ASSERT_TRUE(bench.tape.Backward().ok());
  double analytic = 0;
  for (size_t i = 0; i < hidden.size(); ++i)
    analytic += static_cast<double>(input.node->grad.data<float>()[i]) * direction[i];
  EXPECT_NEAR(analytic / 8.0, numeric, 2e-3);
  EXPECT_TRUE(head.has_gradient());
}

// Row-major; the tests' own arithmetic is in double.
double Dot(const float* a, const float* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Above 65,536 tokens and 128 rows, the logits of a student and a teacher are cut into chunks of
// rows: here one of 65 and one of 64. Only some of them count, as the reference takes long. The
// student's logits are also capped by a transform in one case.
TEST(LossOpTest, ATeacherOfSeveralChunksGivesTheLossAndGradientsOfTheWhole) {
  constexpr size_t kVocabulary = 66000;
  constexpr size_t kRows = 129;
  constexpr size_t kDim = 4;
  constexpr size_t kTeacherDim = 3;
  constexpr double kAlpha = 0.75;
  constexpr double kTemperature = 2;
  constexpr double kCap = 3;
  const testing::SoftCap cap(kCap);
  for (const Divergence divergence : {Divergence::kForward, Divergence::kReverse}) {
    const testing::SoftCap* const transform = divergence == Divergence::kReverse ? &cap : nullptr;
    Bench bench;
    Parameter head("head", Shape({kVocabulary, kDim}));
    bench.Own(head);
    const std::vector<float> hidden = bench.Draw(kRows * kDim);
    const std::vector<float> of_teacher = bench.Draw(kRows * kTeacherDim);
    const std::vector<float> teacher_head = bench.Draw(kVocabulary * kTeacherDim);
    std::vector<int32_t> ids;
    for (size_t row = 0; row < kRows; ++row) {
      ids.push_back(row % 8 == 1 ? static_cast<int32_t>(row * 7919 % kVocabulary) : -100);
    }
    const absl::StatusOr<Tensor> targets = Tensor::FromHost<int32_t>(
        *bench.device, Shape({3, 43}), absl::MakeConstSpan(ids), MemoryCategory::kActivations);
    ASSERT_TRUE(targets.ok());
    Distillation teacher;
    teacher.teacher = {bench.Upload(Shape({3, 43, kTeacherDim}), of_teacher),
                       bench.Upload(Shape({kVocabulary, kTeacherDim}), teacher_head)};
    teacher.options = {static_cast<float>(kAlpha), static_cast<float>(kTemperature), divergence};

    double expected = 0;
    double counted = 0;
    std::vector<double> dhidden(kRows * kDim);
    std::vector<double> dhead(kVocabulary * kDim);
    std::vector<double> next(kVocabulary), q(kVocabulary), p(kVocabulary), slopes(kVocabulary, 1);
    const float* const weight = head.data().data<float>();
    for (size_t row = 0; row < kRows; ++row) {
      if (ids[row] < 0) continue;
      ++counted;
      const float* const h = hidden.data() + row * kDim;
      for (size_t i = 0; i < kVocabulary; ++i) {
        next[i] = Dot(h, weight + i * kDim, kDim);
        if (transform != nullptr) {
          next[i] = kCap * std::tanh(next[i] / kCap);
          slopes[i] = 1 - next[i] * next[i] / (kCap * kCap);
        }
        q[i] = next[i] / kTemperature;
        p[i] = Dot(of_teacher.data() + row * kTeacherDim, teacher_head.data() + i * kTeacherDim,
                   kTeacherDim) /
               kTemperature;
      }
      for (std::vector<double>* x : {&next, &q, &p}) *x = testing::LogSoftmax(std::move(*x));
      double kl = 0;
      for (size_t i = 0; i < kVocabulary; ++i) {
        kl += divergence == Divergence::kForward ? std::exp(p[i]) * (p[i] - q[i])
                                                 : std::exp(q[i]) * (q[i] - p[i]);
      }
      const auto target = static_cast<size_t>(ids[row]);
      expected += kAlpha * kTemperature * kTemperature * kl - (1 - kAlpha) * next[target];
      for (size_t i = 0; i < kVocabulary; ++i) {
        const double of_kl = divergence == Divergence::kForward
                                 ? std::exp(q[i]) - std::exp(p[i])
                                 : std::exp(q[i]) * (q[i] - p[i] - kl);
        const double dlogit =
            slopes[i] * (kAlpha * kTemperature * of_kl +
                         (1 - kAlpha) * (std::exp(next[i]) - (i == target ? 1 : 0)));
        for (size_t j = 0; j < kDim; ++j) {
          dhidden[row * kDim + j] += dlogit * static_cast<double>(weight[i * kDim + j]);
          dhead[i * kDim + j] += dlogit * static_cast<double>(h[j]);
        }
      }
    }
    for (std::vector<double>* x : {&dhidden, &dhead}) {
      for (double& value : *x) value /= counted;
    }

    const auto with_teacher = bench.context->UseDistillation(teacher);
    const Value input = bench.context->MakeValue(bench.Upload(Shape({3, 43, kDim}), hidden));
    const absl::StatusOr<Value> loss =
        DividedCrossEntropyOp(*bench.context, input, head, *targets, /*logit_cap=*/0, transform);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ASSERT_TRUE(bench.tape.Backward().ok());
    EXPECT_NEAR(loss->data.data<float>()[0], expected / counted, 1e-5 * expected / counted);
    EXPECT_LT(RelativeDistance(input.node->grad.ToHost<float>().value(), dhidden), 1e-4);
    EXPECT_LT(RelativeDistance(head.grad().ToHost<float>().value(), dhead), 1e-4);
  }
}

TEST(LossOpTest, ExpectsHiddenStatesAsWideAsTheHead) {
  Bench bench;
  Parameter head("head", Shape({11, 5}));
  bench.Own(head);
  const Tensor targets = bench.Upload(Shape({2, 3}), bench.Draw(6));
  for (const Shape& shape : {Shape({2, 3, 4}), Shape({2, 3, 6}), Shape({30})}) {
    const Value hidden = bench.context->MakeValue(bench.Upload(shape, bench.Draw(shape.numel())));
    const absl::Status status =
        DividedCrossEntropyOp(*bench.context, hidden, head, targets).status();
    EXPECT_EQ(status.message(), "loss: hidden states " + shape.ToString() +
                                    " against head 'head' [11, 5], expected [batch, seq, dim] and "
                                    "[vocab, dim]");
    EXPECT_EQ(status, LinearCrossEntropyOp(*bench.context, hidden, head, targets).status());
  }
}

// A recomputed module may not end in the loss: its gradients would silently lack the factor that
// follows.
TEST(LossOpTest, IsNotTheEndOfAModuleThatIsComputedAgain) {
  struct Head : Module {
    Head() : Module("head") {}
    Parameter* weight = AddParameter("weight", Shape({11, 6}), Initializer::Zeros());
    absl::StatusOr<Value> Loss(Context& context, const Value& x, const Tensor& targets) {
      return HookedOne(context, x, [this, targets](Context& c, const Value& in) {
        return LinearCrossEntropyOp(c, in, *weight, targets);
      });
    }
  };
  Bench bench;
  Head head;
  bench.Own(*head.weight);
  head.set_recomputes(Recomputes::kAll);
  const absl::StatusOr<Tensor> targets =
      Tensor::FromHost<int32_t>(*bench.device, Shape({1, 2}), {1, 3}, MemoryCategory::kActivations);
  ASSERT_TRUE(targets.ok());
  const Value input = bench.context->MakeValue(bench.Upload(Shape({1, 2, 6}), bench.Draw(12)));
  const absl::StatusOr<Value> loss = head.Loss(*bench.context, input, *targets);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const absl::StatusOr<Value> twice = AddOp(*bench.context, *loss, *loss);
  ASSERT_TRUE(twice.ok()) << twice.status();
  const absl::Status status = Backward(*bench.context, *twice);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("compute the loss outside of it"), std::string::npos) << status;
}

}  // namespace
}  // namespace zeroth
