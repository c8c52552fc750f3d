// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/moe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/ops/grouped_linear.h"
#include "zeroth/nn/ops/pointwise.h"
#include "zeroth/nn/testing/gradient_check.h"
#include "zeroth/nn/testing/one_rank.h"

namespace zeroth {
namespace {

using testing::Bench;
using testing::CheckGradients;

struct Sizes {
  int64_t sequences = 1;
  int64_t length = 1;
  int64_t experts = 1;
  int64_t top_k = 1;
};

// The loss by its definition, in float64, with the experts that tokens were given.
double BalanceLoss(const Sizes& sizes, const std::vector<double>& logits,
                   const std::vector<int32_t>& chosen) {
  const auto experts = static_cast<size_t>(sizes.experts);
  double sum = 0;
  for (int64_t s = 0; s < sizes.sequences; ++s) {
    std::vector<double> f(experts), p(experts);
    for (int64_t t = s * sizes.length; t < (s + 1) * sizes.length; ++t) {
      const double* const row = logits.data() + t * sizes.experts;
      double all = 0;
      for (size_t e = 0; e < experts; ++e) all += std::exp(row[e]);
      for (size_t e = 0; e < experts; ++e)
        p[e] += std::exp(row[e]) / all / static_cast<double>(sizes.length);
      for (int64_t k = 0; k < sizes.top_k; ++k)
        f[static_cast<size_t>(chosen[static_cast<size_t>(t * sizes.top_k + k)])] +=
            1.0 / static_cast<double>(sizes.length);
    }
    for (size_t e = 0; e < experts; ++e)
      sum +=
          static_cast<double>(sizes.experts) * f[e] * p[e] / static_cast<double>(sizes.sequences);
  }
  return sum;
}

class BalanceOpTest : public ::testing::TestWithParam<Sizes> {};

TEST_P(BalanceOpTest, IsTheLossAndItsGradient) {
  const Sizes& sizes = GetParam();
  constexpr float kCoefficient = 0.7f;
  constexpr float kLossScale = 16.0f;
  Bench bench;
  Context& context = *bench.context;
  context.set_loss_scale(kLossScale);
  const Shape shape({sizes.sequences, sizes.length, sizes.experts});
  const std::vector<float> values = bench.Draw(shape.numel(), 2.0f);
  const Value logits = context.MakeValue(bench.Upload(shape, values));
  const auto routed = RouteOp(context, logits, sizes.top_k, {.normalize = true});
  ASSERT_TRUE(routed.ok()) << routed.status();
  const std::vector<int32_t> chosen = *routed->routing.experts.ToHost<int32_t>();
  context.set_extra_loss(bench.Upload(Shape({1}), {3.0f}));
  ASSERT_TRUE(BalanceOp(context, logits, routed->routing, kCoefficient).ok());

  std::vector<double> exact(values.begin(), values.end());
  const double expected = BalanceLoss(sizes, exact, chosen);
  EXPECT_NEAR(context.extra_loss().ToHost<float>()->front(), 3 + kCoefficient * expected,
              2e-6 * (3 + expected));

  ASSERT_TRUE(context.tape().Backward().ok());
  ASSERT_TRUE(logits.node->grad.defined());
  const std::vector<float> gradient = *logits.node->grad.ToHost<float>();
  for (size_t i = 0; i < exact.size(); i += 1 + exact.size() / 40) {
    constexpr double kStep = 1e-5;
    const double before = exact[i];
    exact[i] = before + kStep;
    const double above = BalanceLoss(sizes, exact, chosen);
    exact[i] = before - kStep;
    const double below = BalanceLoss(sizes, exact, chosen);
    exact[i] = before;
    const double slope = kLossScale * kCoefficient * (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], slope, 1e-5 * std::abs(slope) + 2e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BalanceOpTest,
                         ::testing::Values(Sizes{1, 1, 1, 1}, Sizes{1, 7, 4, 2}, Sizes{3, 5, 8, 3},
                                           Sizes{2, 33, 40, 8}));

// A loss that another pass adds is not added again, but its gradient is wanted.
TEST(BalanceOpTest, WithoutAPlaceForTheLossThereIsItsGradientStill) {
  Bench bench;
  Context& context = *bench.context;
  const Value logits = context.MakeValue(bench.Upload(Shape({1, 6, 3}), bench.Draw(18)));
  const auto routed = RouteOp(context, logits, 1, {.normalize = false});
  ASSERT_TRUE(routed.ok()) << routed.status();
  ASSERT_TRUE(BalanceOp(context, logits, routed->routing, 1.0f).ok());
  ASSERT_TRUE(context.tape().Backward().ok());
  EXPECT_TRUE(logits.node->grad.defined());
}

// Balanced experts have the least loss that routing to top_k of them may have: top_k.
TEST(BalanceOpTest, BalancedExpertsLoseTopK) {
  const Sizes sizes{1, 4, 4, 1};
  const std::vector<double> even(16, 0.0);
  EXPECT_NEAR(BalanceLoss(sizes, even, {0, 1, 2, 3}), 1.0, 1e-12);
  std::vector<double> one(16, 0.0);
  for (size_t t = 0; t < 4; ++t) one[4 * t] = 50;
  EXPECT_NEAR(BalanceLoss(sizes, one, {0, 0, 0, 0}), 4.0, 1e-12);
}

TEST(RouterZLossOpTest, IsAddedToTheLossAndScaledAsItsGradient) {
  constexpr float kCoefficient = 0.7f;
  constexpr float kLossScale = 16.0f;
  constexpr int64_t kTokens = 6;
  Bench bench;
  Context& context = *bench.context;
  context.set_loss_scale(kLossScale);
  const std::vector<float> values = bench.Draw(kTokens * 4, 2.0f);
  const Value logits = context.MakeValue(bench.Upload(Shape({2, 3, 4}), values));
  context.set_extra_loss(bench.Upload(Shape({1}), {3.0f}));
  ASSERT_TRUE(RouterZLossOp(context, logits, kCoefficient).ok());
  double mean = 0;
  std::vector<double> slopes;
  for (size_t t = 0; t < kTokens; ++t) {
    double sum = 0;
    for (size_t e = 0; e < 4; ++e) sum += std::exp(values[4 * t + e]);
    mean += std::log(sum) * std::log(sum) / kTokens;
    for (size_t e = 0; e < 4; ++e) {
      slopes.push_back(kLossScale * kCoefficient * 2 * std::log(sum) * std::exp(values[4 * t + e]) /
                       sum / kTokens);
    }
  }
  EXPECT_NEAR(context.extra_loss().ToHost<float>()->front(), 3 + kCoefficient * mean, 1e-5);
  ASSERT_TRUE(context.tape().Backward().ok());
  const std::vector<float> gradient = *logits.node->grad.ToHost<float>();
  for (size_t i = 0; i < slopes.size(); ++i) {
    EXPECT_NEAR(gradient[i], slopes[i], 1e-5 * std::abs(slopes[i]) + 1e-6) << i;
  }
}

TEST(Fp32RouterOpTest, GradientsOfFp32) {
  Bench bench;
  Parameter weight("gate.weight", Shape({5, 12}));
  Parameter bias("gate.bias", Shape({5}));
  bench.Own(weight);
  bench.Own(bias);
  CheckGradients(bench, {Shape({2, 3, 12})}, {&weight},
                 [&](Context& context, const std::vector<Value>& in) {
                   return Fp32RouterOp(context, in[0], weight);
                 });
  const auto with_bias = [&](Context& context, const std::vector<Value>& in) {
    return Fp32RouterOp(context, in[0], weight, &bias);
  };
  CheckGradients(bench, {Shape({2, 3, 12})}, {&weight, &bias}, with_bias);
  bias.set_requires_grad(false);
  CheckGradients(bench, {Shape({2, 3, 12})}, {&weight, &bias}, with_bias);
}

// Logits of bf16 activations and weights, and the gradients that come from fp32 ones, are those of
// float64 within fp32's rounding; results that bf16 stores are rounded once.
TEST(Fp32RouterOpTest, LogitsOfBf16AreNotRounded) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kWidth = 64;
  constexpr int64_t kCount = 8;
  Bench bench;
  Context& context = *bench.context;
  const auto in_bf16 = [&](const Shape& shape, std::vector<float>& values) {
    for (float& value : values) value = ToFloat(ToBFloat16(value));
    return *CastTo(context, bench.Upload(shape, values), DType::kBFloat16);
  };
  std::vector<float> a = bench.Draw(kRows * kWidth);
  std::vector<float> w = bench.Draw(kCount * kWidth);
  Parameter weight("gate.weight", Shape({kCount, kWidth}));
  weight.set_data(in_bf16(weight.shape(), w));
  weight.set_grad(*context.Empty(weight.shape(), DType::kFloat32));
  std::vector<float> z = bench.Draw(kCount);
  Parameter bias("gate.bias", Shape({kCount}));
  bias.set_data(in_bf16(bias.shape(), z));
  bias.set_grad(*context.Empty(bias.shape(), DType::kBFloat16));
  const Value x = context.MakeValue(in_bf16(Shape({kRows, kWidth}), a));
  const absl::StatusOr<Value> logits = Fp32RouterOp(context, x, weight, &bias);
  ASSERT_TRUE(logits.ok()) << logits.status();
  ASSERT_EQ(logits->data.dtype(), DType::kFloat32);
  const std::vector<float> slope = bench.Draw(kRows * kCount);
  logits->node->grad = bench.Upload(Shape({kRows, kCount}), slope);
  ASSERT_TRUE(context.tape().Backward().ok());

  const std::vector<float> ours = *logits->data.ToHost<float>();
  const std::vector<float> dw = *weight.grad().ToHost<float>();
  const std::vector<float> dz = *CastTo(context, bias.grad(), DType::kFloat32)->ToHost<float>();
  const std::vector<float> dx = *CastTo(context, x.node->grad, DType::kFloat32)->ToHost<float>();
  EXPECT_EQ(x.node->grad.dtype(), DType::kBFloat16);
  const auto at = [](const std::vector<float>& values, int64_t row, int64_t cols, int64_t col) {
    return static_cast<double>(values[static_cast<size_t>(row * cols + col)]);
  };
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t e = 0; e < kCount; ++e) {
      double sum = at(z, 0, kCount, e);
      for (int64_t c = 0; c < kWidth; ++c) sum += at(a, r, kWidth, c) * at(w, e, kWidth, c);
      EXPECT_NEAR(at(ours, r, kCount, e), sum, 2e-5);
    }
    for (int64_t c = 0; c < kWidth; ++c) {
      double sum = 0;
      for (int64_t e = 0; e < kCount; ++e) sum += at(slope, r, kCount, e) * at(w, e, kWidth, c);
      EXPECT_NEAR(at(dx, r, kWidth, c), sum, std::abs(sum) / 256 + 1e-5);
    }
  }
  for (int64_t e = 0; e < kCount; ++e) {
    double total = 0;
    for (int64_t r = 0; r < kRows; ++r) total += at(slope, r, kCount, e);
    EXPECT_NEAR(at(dz, 0, kCount, e), total, std::abs(total) / 256 + 1e-5);
    for (int64_t c = 0; c < kWidth; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < kRows; ++r) sum += at(slope, r, kCount, e) * at(a, r, kWidth, c);
      EXPECT_NEAR(at(dw, e, kWidth, c), sum, 1e-5);
    }
  }
}

constexpr int64_t kExperts = 3;
constexpr int64_t kDim = 5;
constexpr int64_t kHidden = 8;
constexpr int64_t kRank = 2;
constexpr float kScale = 1.75f;

// Three projections of experts, with adapters or without, in four pieces each or whole. If weights
// are frozen, so are the biases of one projection.
struct TinyExperts {
  TinyExperts(Bench& bench, bool divided, bool adapted, bool biased) {
    for (ExpertProjection* projection : {&gate, &up, &down}) {
      const bool is_down = projection == &down;
      const int64_t out = is_down ? kDim : kHidden;
      const int64_t in = is_down ? kHidden : kDim;
      const auto add = [&](const Shape& shape, ExpertWeights& to, bool is_divided) {
        parameters.push_back(std::make_unique<Parameter>("weight", shape));
        to.push_back(parameters.back().get());
        if (divided && is_divided) {
          EXPECT_TRUE(to.back()->Divide({kTensorAxis, is_down ? 1 : 0, 0, 1}).ok());
        }
        bench.Own(*to.back(), 0.5f);
      };
      for (int64_t e = 0; e < kExperts; ++e) {
        add(Shape({out, in}), projection->weights, true);
        if (biased) add(Shape({out}), projection->biases, !is_down);
        if (!adapted) continue;
        if (biased && projection == &up) projection->biases.back()->set_requires_grad(false);
        projection->weights.back()->set_requires_grad(false);
        add(Shape({kRank, in}), projection->a, is_down);
        add(Shape({out, kRank}), projection->b, !is_down);
      }
    }
  }

  std::vector<Parameter*> all() const {
    std::vector<Parameter*> found;
    for (const auto& parameter : parameters) found.push_back(parameter.get());
    return found;
  }

  // `in` has tokens, and logits of experts.
  absl::StatusOr<Value> Forward(Context& context, const std::vector<Value>& in,
                                TensorRanks* ranks) const {
    // The steps of a finite difference must not change the routing.
    std::vector<float> apart;
    for (int64_t i = 0; i < 6 * kExperts; ++i) {
      apart.push_back(2.0f * static_cast<float>((i / kExperts + i) % kExperts));
    }
    ZEROTH_ASSIGN_OR_RETURN(const Tensor constant,
                            Tensor::FromHost<float>(context.device(), in[1].data.shape(), apart,
                                                    MemoryCategory::kActivations));
    ZEROTH_ASSIGN_OR_RETURN(const Value scaled, ScaleOp(context, in[1], 0.3f));
    ZEROTH_ASSIGN_OR_RETURN(const Value logits,
                            AddOp(context, scaled, context.MakeValue(constant)));
    ZEROTH_ASSIGN_OR_RETURN(const RoutedTokens routed,
                            RouteOp(context, logits, 2, {.normalize = true}));
    ZEROTH_ASSIGN_OR_RETURN(const Value grouped,
                            ScatterOp(context, in[0], in[0].data, routed.routing, ranks));
    const Tensor& offsets = routed.routing.offsets;
    ZEROTH_ASSIGN_OR_RETURN(const Value both,
                            GroupedLinearOp(context, grouped, offsets, {gate, up}, kScale));
    ZEROTH_ASSIGN_OR_RETURN(const Value hidden, SwiGluOp(context, both));
    ZEROTH_ASSIGN_OR_RETURN(const Value out,
                            GroupedLinearOp(context, hidden, offsets, {down}, kScale));
    return CombineOp(context, out, routed, in[0].data, ranks);
  }

  std::vector<std::unique_ptr<Parameter>> parameters;
  ExpertProjection gate, up, down;
};

std::vector<Value> DrawTokens(Bench& bench) {
  return {
      bench.context->MakeValue(bench.Upload(Shape({2, 3, kDim}), bench.Draw(6 * kDim))),
      bench.context->MakeValue(bench.Upload(Shape({2, 3, kExperts}), bench.Draw(6 * kExperts)))};
}

TEST(ExpertsTest, GradientsAndPieces) {
  for (const auto& [adapted, biased] : std::vector<std::pair<bool, bool>>{
           {false, false}, {false, true}, {true, false}, {true, true}}) {
    std::vector<std::vector<float>> results;
    for (const bool divided : {false, true}) {
      SCOPED_TRACE(::testing::Message() << adapted << biased << divided);
      Bench bench;
      testing::OneRank ranks(4);
      bench.context->set_tensor_ranks(&ranks);
      const TinyExperts experts(bench, divided, adapted, biased);
      const auto forward = [&](Context& context, const std::vector<Value>& in) {
        return experts.Forward(context, in, divided ? &ranks : nullptr);
      };
      CheckGradients(bench, {Shape({2, 3, kDim}), Shape({2, 3, kExperts})}, experts.all(), forward);
      const absl::StatusOr<Value> out = forward(*bench.context, DrawTokens(bench));
      ASSERT_TRUE(out.ok()) << out.status();
      results.push_back(*out->data.ToHost<float>());
    }
    EXPECT_THAT(results[1], ::testing::Pointwise(::testing::FloatNear(1e-5f), results[0]));
  }
}

// weight + scale * B A in float64.
TEST(ExpertsTest, AdaptersAreMergedWeights) {
  Bench bench;
  TinyExperts experts(bench, /*divided=*/false, /*adapted=*/true, /*biased=*/true);
  const std::vector<Value> in = DrawTokens(bench);
  const absl::StatusOr<Value> adapted = experts.Forward(*bench.context, in, nullptr);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  for (ExpertProjection* projection : {&experts.gate, &experts.up, &experts.down}) {
    for (size_t e = 0; e < projection->weights.size(); ++e) {
      const Tensor& weight = projection->weights[e]->data();
      std::vector<float> merged = *weight.ToHost<float>();
      const std::vector<float> a = *projection->a[e]->data().ToHost<float>();
      const std::vector<float> b = *projection->b[e]->data().ToHost<float>();
      const auto columns = static_cast<size_t>(weight.dim(1));
      for (size_t i = 0; i < merged.size(); ++i) {
        double sum = 0;
        for (size_t k = 0; k < kRank; ++k) {
          sum += static_cast<double>(b[i / columns * kRank + k]) * a[k * columns + i % columns];
        }
        merged[i] = static_cast<float>(merged[i] + kScale * sum);
      }
      std::copy(merged.begin(), merged.end(), weight.data<float>());
    }
    projection->a.clear();
    projection->b.clear();
  }
  const absl::StatusOr<Value> plain = experts.Forward(*bench.context, in, nullptr);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(*adapted->data.ToHost<float>(),
              ::testing::Pointwise(::testing::FloatNear(2e-5f), *plain->data.ToHost<float>()));
}

class UnpackCounter : public CallWatch {
 public:
  absl::Status AfterCall(const char* operation, absl::Span<const CallField>) override {
    if (absl::string_view(operation) == "Unpack") ++calls;
    return absl::OkStatus();
  }
  int calls = 0;
};

// Expects the bits of the unpacked weights in full, where one of the experts has no rows, and this
// number of calls in each of forward and backward.
void ExpectUnpacked(int64_t out_features, int64_t in_features,
                    const std::vector<PackedFormat>& formats, int calls) {
  constexpr int64_t kRows = 4;
  const Shape of_matrix({out_features, in_features});
  Bench bench;
  Context& context = *bench.context;
  const auto offsets = Tensor::FromHost<int32_t>(*bench.device, Shape({kExperts + 1}),
                                                 {0, 3, 3, kRows}, MemoryCategory::kActivations);
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<std::unique_ptr<PackedWeight>> packed;
  ExpertProjection few_bits;
  ExpertProjection full;
  for (const PackedFormat format : formats) {
    const PackedShape shape = {format, out_features, in_features};
    const std::vector<float> scale = bench.Draw(shape.scales(), 0.01f);
    std::vector<uint8_t> codes(static_cast<size_t>(out_features * shape.CodeBytes(in_features)));
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7919 >> 5);
    std::vector<uint8_t> scales(static_cast<size_t>(shape.scale_bytes()));
    std::memcpy(scales.data(), scale.data(), scales.size());
    const auto add = [&](const Shape& of, DType dtype, const Tensor& data) {
      parameters.push_back(std::make_unique<Parameter>("weight", of, Initializer::Zeros(), dtype));
      parameters.back()->set_requires_grad(false);
      parameters.back()->set_data(data);
      return parameters.back().get();
    };
    const auto bytes = [&](const Shape& of, const std::vector<uint8_t>& values) {
      return add(
          of, DType::kUInt8,
          *Tensor::FromHost<uint8_t>(*bench.device, of, values, MemoryCategory::kParameters));
    };
    const auto values = UnpackMatrix(shape, codes, scales);
    ASSERT_TRUE(values.ok()) << values.status();
    full.weights.push_back(add(of_matrix, DType::kFloat32, bench.Upload(of_matrix, *values)));
    packed.push_back(std::make_unique<PackedWeight>(
        PackedWeight{add(of_matrix, DType::kFloat32, Tensor()),
                     bytes(Shape({out_features, shape.CodeBytes(in_features)}), codes),
                     bytes(Shape({shape.scale_bytes()}), scales), shape}));
    few_bits.weights.push_back(packed.back()->weight);
    few_bits.packed.push_back(packed.back().get());
  }
  const std::vector<float> x = bench.Draw(kRows * in_features);
  const std::vector<float> slope = bench.Draw(kRows * out_features);
  std::vector<std::vector<float>> results;
  for (const ExpertProjection& projection : {full, few_bits}) {
    const int expected = projection.packed.empty() ? 0 : calls;
    const Value in = context.MakeValue(bench.Upload(Shape({kRows, in_features}), x));
    UnpackCounter counter;
    context.kernels().set_watch(&counter);
    const auto out = GroupedLinearOp(context, in, *offsets, {projection});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(counter.calls, expected);
    out->node->grad = bench.Upload(Shape({kRows, out_features}), slope);
    ASSERT_TRUE(context.tape().Backward().ok());
    EXPECT_EQ(counter.calls, 2 * expected);
    context.kernels().set_watch(nullptr);
    results.push_back(*out->data.ToHost<float>());
    results.push_back(*in.node->grad.ToHost<float>());
  }
  EXPECT_TRUE(results[2] == results[0]);
  EXPECT_TRUE(results[3] == results[1]);
}

TEST(ExpertsTest, PackedWeightsAreUnpackedTogether) {
  constexpr PackedFormat kInt8 = PackedFormat::kInt8;
  constexpr PackedFormat kNf4 = PackedFormat::kNf4;
  ExpectUnpacked(5, 64, {kInt8, kInt8, kInt8}, 1);
  ExpectUnpacked(5, 64, {kNf4, kNf4, kNf4}, 1);
  // Weights of two formats.
  ExpectUnpacked(5, 64, {kNf4, kInt8, kInt8}, 2);
  ExpectUnpacked(5, 64, {kNf4, kInt8, kNf4}, 3);
  // Two experts at a time.
  constexpr int64_t kOut = 1024;
  constexpr int64_t kIn = 8192;
  static_assert(kMostUnpacked / (kOut * kIn) == 2 && kExperts == 3);
  ExpectUnpacked(kOut, kIn, {kInt8, kInt8, kInt8}, 2);
}

TEST(BalanceOpTest, RefusesLogitsWithoutASequenceDimension) {
  Bench bench;
  const Value logits = bench.context->MakeValue(bench.Upload(Shape({4, 2}), bench.Draw(8)));
  const absl::Status status = BalanceOp(*bench.context, logits, Routing(), 1.0f);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("[sequences, tokens, experts]"));
}

}  // namespace
}  // namespace zeroth
