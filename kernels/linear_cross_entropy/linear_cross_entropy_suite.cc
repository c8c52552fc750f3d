// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "zeroth/kernels/linear_cross_entropy/testing/linear_cross_entropy_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

class LinearCrossEntropySuite : public KernelsSuite {
 protected:
  // `dtype` of hidden, weight and dhidden, `grad_dtype` of dweight.
  using Types = TypePair;

  // Returns random hidden states, weights and targets, some of which do not count; outputs start as
  // NaN.
  LinearCrossEntropyArgs Random(int64_t rows, int64_t dim, int64_t vocab, const Types& types);
  // Runs `args` and compares loss and gradients (those that are defined) with the definition.
  // `old_dweight` is what dweight held, if it accumulates. `dhidden_tolerance` is added to that of
  // the type.
  void Check(const LinearCrossEntropyArgs& args, const std::vector<float>& old_dweight = {},
             double dhidden_tolerance = 0);
};

namespace {

constexpr int32_t kIgnored = -100;

// The allowed error, relative to the largest gradient. fp32: rounding of dot products of dim terms
// and of the exponentials. bf16: the logits' gradients are rounded to half an ulp, 2^-8, before
// they are multiplied, and their magnitudes add up to at most twice the largest.
double Tolerance(DType dtype) { return dtype == DType::kFloat32 ? 4e-6 : std::ldexp(1.0, -7); }

}  // namespace

LinearCrossEntropyArgs LinearCrossEntropySuite::Random(int64_t rows, int64_t dim, int64_t vocab,
                                                       const Types& types) {
  LinearCrossEntropyArgs args;
  args.hidden = Upload({rows, dim}, RandomNormal(rows * dim), types.dtype);
  args.weight = Upload({vocab, dim}, RandomNormal(vocab * dim, 0.7f), types.dtype);
  std::vector<int32_t> targets(static_cast<size_t>(rows));
  for (int32_t& target : targets) {
    target = RandomSize(0, 4) == 0 ? kIgnored : static_cast<int32_t>(RandomSize(0, vocab - 1));
  }
  if (rows > 0) targets[0] = static_cast<int32_t>(vocab - 1);
  args.targets = UploadTokens({rows}, targets);
  args.loss = Unwritten({1});
  args.dhidden = Unwritten({rows, dim}, types.dtype);
  args.dweight = Unwritten({vocab, dim}, types.grad_dtype);
  return args;
}

void LinearCrossEntropySuite::Check(const LinearCrossEntropyArgs& args,
                                    const std::vector<float>& old_dweight,
                                    double dhidden_tolerance) {
  const int64_t dim = args.hidden.dim(1);
  const int64_t vocab = args.weight.dim(0);
  SCOPED_TRACE(absl::StrCat("rows ", args.hidden.dim(0), ", dim ", dim, ", vocab ", vocab, ", ",
                            DTypeName(args.hidden.dtype())));
  const absl::Status status = kernels::LinearCrossEntropy(kernels(), args);
  ASSERT_TRUE(status.ok()) << status;
  const absl::StatusOr<std::vector<int32_t>> targets = args.targets.ToHost<int32_t>();
  ASSERT_TRUE(targets.ok()) << targets.status();
  reference::LinearCrossEntropyOutput expected = reference::LinearCrossEntropy(
      dim, vocab, ToDouble(Download(args.hidden)), ToDouble(Download(args.weight)), *targets,
      static_cast<double>(args.logit_cap));
  double factor = 1.0;
  if (args.divisor.defined()) {
    const auto counted = std::count_if(targets->begin(), targets->end(),
                                       [](int32_t target) { return target != kIgnored; });
    factor = static_cast<double>(counted) / static_cast<double>(Download(args.divisor)[0]);
  }
  expected.loss *= factor;
  for (double& x : expected.dhidden) x *= factor * args.grad_scale;
  for (double& x : expected.dweight) x *= factor * args.grad_scale;
  for (size_t i = 0; i < old_dweight.size(); ++i) expected.dweight[i] += old_dweight[i];
  ExpectClose(Download(args.loss), {expected.loss}, 1e-6, 1e-7, "loss");
  if (args.dhidden.defined())
    ExpectCloseIn(args.dhidden.dtype(), Download(args.dhidden), expected.dhidden,
                  Tolerance(args.hidden.dtype()) + dhidden_tolerance, 1e-9, "dhidden");
  if (args.dweight.defined())
    ExpectCloseIn(args.dweight.dtype(), Download(args.dweight), expected.dweight,
                  Tolerance(args.hidden.dtype()), 1e-9, "dweight");
}

TEST_P(LinearCrossEntropySuite, RandomShapes) {
  for (int i = 0; i < 60; ++i) {
    LinearCrossEntropyArgs args =
        Random(RandomSize(1, 90), RandomSize(1, 40), RandomSize(1, 300), kTypePairs[i % 7]);
    args.grad_scale = RandomSize(0, 1) == 0 ? 1.0f : 0.37f;
    if (i % 3 == 0) args.divisor = Upload({1}, {static_cast<float>(RandomSize(1, 400)) * 0.25f});
    Check(args);
    if (HasFatalFailure()) return;
  }
}

// Logits from far below the cap to far above.
TEST_P(LinearCrossEntropySuite, CapsLogits) {
  for (int i = 0; i < 42; ++i) {
    LinearCrossEntropyArgs args =
        Random(RandomSize(1, 90), RandomSize(1, 40), RandomSize(1, 300), kTypePairs[i % 7]);
    args.logit_cap = 0.25f * static_cast<float>(RandomSize(1, 120));
    args.grad_scale = i % 2 == 0 ? 1.0f : 0.37f;
    if (i % 3 == 0) args.divisor = Upload({1}, {static_cast<float>(RandomSize(1, 400)) * 0.25f});
    Check(args);
    if (HasFatalFailure()) return;
  }
  LinearCrossEntropyArgs args = Random(3, 4, 30, kTypePairs[0]);
  args.logit_cap = -1.0f;
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args), {"LinearCrossEntropy", "logit_cap"});
}

// Each row alone, in a call of one row, is the reference.
TEST_P(LinearCrossEntropySuite, RowsHaveLossesAndWeights) {
  for (int i = 0; i < 21; ++i) {
    const Types& types = kTypePairs[i % 7];
    const int64_t rows = RandomSize(1, 80);
    const int64_t dim = RandomSize(1, 20);
    const int64_t vocab = RandomSize(1, 90);
    LinearCrossEntropyArgs args = Random(rows, dim, vocab, types);
    if (i % 2 == 0) args.logit_cap = 5.0f;
    args.grad_scale = 0.5f;
    const double divisor = i % 3 == 0 ? 3.0 : 1.0;
    if (divisor > 1) args.divisor = Upload({1}, {static_cast<float>(divisor)});
    const std::vector<float> weights = RandomNormal(rows);
    args.row_weights = Upload({rows}, weights);
    args.row_losses = Unwritten({rows});
    const absl::Status status = kernels::LinearCrossEntropy(kernels(), args);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<int32_t> targets = *args.targets.ToHost<int32_t>();
    const std::vector<double> hidden = ToDouble(Download(args.hidden));
    const std::vector<double> weight = ToDouble(Download(args.weight));
    std::vector<double> losses;
    std::vector<double> dhidden;
    std::vector<double> dweight(weight.size());
    double loss = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const auto first = hidden.begin() + row * dim;
      reference::LinearCrossEntropyOutput alone;
      alone.dhidden.resize(static_cast<size_t>(dim));
      alone.dweight.resize(weight.size());
      if (targets[static_cast<size_t>(row)] != kIgnored) {
        alone = reference::LinearCrossEntropy(dim, vocab, {first, first + dim}, weight,
                                              {targets[static_cast<size_t>(row)]},
                                              static_cast<double>(args.logit_cap));
      }
      losses.push_back(alone.loss);
      const double by = static_cast<double>(weights[static_cast<size_t>(row)]);
      loss += by * alone.loss / divisor;
      for (const double x : alone.dhidden) dhidden.push_back(x * by * 0.5 / divisor);
      for (size_t k = 0; k < dweight.size(); ++k)
        dweight[k] += alone.dweight[k] * by * 0.5 / divisor;
    }
    ExpectClose(Download(args.row_losses), losses, 2e-6, 1e-6, "row losses");
    ExpectClose(Download(args.loss), {loss}, 2e-6, 2e-6, "loss");
    ExpectCloseIn(types.dtype, Download(args.dhidden), dhidden, Tolerance(types.dtype), 1e-9,
                  "dhidden");
    ExpectCloseIn(types.grad_dtype, Download(args.dweight), dweight, Tolerance(types.dtype), 1e-9,
                  "dweight");
    if (HasFailure()) return;
  }
}

TEST_P(LinearCrossEntropySuite, AccumulatesTheWeightGradientOnRequest) {
  for (const Types& types : kTypePairs) {
    LinearCrossEntropyArgs args = Random(20, 9, 65, types);
    const std::vector<float> old = RoundTo(types.grad_dtype, RandomNormal(65 * 9, 0.01f));
    args.dweight = Upload({65, 9}, old, types.grad_dtype);
    args.accumulate_dweight = true;
    Check(args, old);
  }
}

TEST_P(LinearCrossEntropySuite, GradientsAreOptional) {
  for (const Types& types : kTypePairs) {
    LinearCrossEntropyArgs args = Random(33, 12, 100, types);
    Check(args);
    const std::vector<float> loss = Download(args.loss);
    const std::vector<float> dhidden = Download(args.dhidden);
    const std::vector<float> dweight = Download(args.dweight);

    LinearCrossEntropyArgs frozen = args;
    frozen.dweight = Tensor();
    frozen.dhidden = Unwritten(args.hidden.shape(), types.dtype);
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), frozen).ok());
    EXPECT_EQ(Download(frozen.dhidden), dhidden);

    LinearCrossEntropyArgs weight_only = args;
    weight_only.dhidden = Tensor();
    weight_only.dweight = Unwritten(args.weight.shape(), types.grad_dtype);
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), weight_only).ok());
    EXPECT_EQ(Download(weight_only.dweight), dweight);

    LinearCrossEntropyArgs loss_alone = args;
    loss_alone.dhidden = Tensor();
    loss_alone.dweight = Tensor();
    loss_alone.loss = Unwritten({1});
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), loss_alone).ok());
    EXPECT_EQ(Download(loss_alone.loss), loss);

    // Weights of 1 change no bit.
    const std::vector<int32_t> targets = *args.targets.ToHost<int32_t>();
    const auto counted = std::count_if(targets.begin(), targets.end(),
                                       [](int32_t target) { return target != kIgnored; });
    LinearCrossEntropyArgs weighted = args;
    weighted.row_weights = Upload({33}, std::vector<float>(33, 1.0f));
    weighted.divisor = Upload({1}, {static_cast<float>(counted)});
    weighted.dweight = Unwritten(args.weight.shape(), types.grad_dtype);
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), weighted).ok());
    EXPECT_EQ(Download(weighted.loss), loss);
    EXPECT_EQ(Download(weighted.dweight), dweight);
  }
}

// The vocabulary is so large that the rows need several chunks on any device. Gradients of bf16 are
// still rounded once: with fp32 operands nothing but that rounding is allowed for. Each chunk has a
// few targets that count; more would only slow down the reference.
TEST_P(LinearCrossEntropySuite, ChunksBoundTheWorkspace) {
  constexpr int64_t kRows = 224;
  constexpr int64_t kDim = 4;
  constexpr int64_t kVocab = 262147;
  // Where oneDNN for aarch64 adds the terms of all words one by one, those below half an ulp of the
  // sum are lost.
  constexpr double kDhiddenTolerance = 1e-3;
  for (const Types& types : {kTypePairs[1], kTypePairs[2]}) {  // a sum apart; a sum in place
    SetUp();                                                   // a fresh allocator
    LinearCrossEntropyArgs args = Random(kRows, kDim, kVocab, types);
    std::vector<int32_t> targets(kRows, kIgnored);
    for (int64_t row = 0; row < kRows; row += 9) {
      targets[row] = static_cast<int32_t>(RandomSize(0, kVocab - 1));
    }
    args.targets = UploadTokens({kRows}, targets);
    const std::vector<float> old = RoundTo(types.grad_dtype, RandomNormal(kVocab * kDim, 1e-3f));
    args.dweight = Upload({kVocab, kDim}, old, types.grad_dtype);
    args.accumulate_dweight = true;
    Check(args, old, kDhiddenTolerance);
    const int64_t peak = device().allocator().stats()[MemoryCategory::kWorkspace].peak_bytes;
    EXPECT_LT(peak, kRows * kVocab * 4 * 9 / 10);
  }
}

TEST_P(LinearCrossEntropySuite, NothingCounted) {
  for (const Types& types : kTypePairs) {
    LinearCrossEntropyArgs args = Random(6, 5, 40, types);
    args.targets = UploadTokens({6}, std::vector<int32_t>(6, kIgnored));
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), args).ok());
    EXPECT_EQ(Download(args.loss), std::vector<float>{0.0f});
    EXPECT_EQ(Download(args.dhidden), std::vector<float>(30, 0.0f));
    EXPECT_EQ(Download(args.dweight), std::vector<float>(200, 0.0f));
    args.divisor = Upload({1}, {3.0f});
    args.row_losses = Unwritten({6});
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), args).ok());
    EXPECT_EQ(Download(args.loss), std::vector<float>{0.0f});
    EXPECT_EQ(Download(args.row_losses), std::vector<float>(6, 0.0f));
    EXPECT_EQ(Download(args.dhidden), std::vector<float>(30, 0.0f));
    const std::vector<float> old = RoundTo(types.grad_dtype, RandomNormal(200));
    args.dweight = Upload({40, 5}, old, types.grad_dtype);
    args.accumulate_dweight = true;
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), args).ok());
    EXPECT_EQ(Download(args.dweight), old);
  }
}

TEST_P(LinearCrossEntropySuite, NoRows) {
  for (const Types& types : kTypePairs) {
    const LinearCrossEntropyArgs args = Random(0, 5, 40, types);
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), args).ok());
    EXPECT_EQ(Download(args.loss), std::vector<float>{0.0f});
    EXPECT_EQ(Download(args.dweight), std::vector<float>(200, 0.0f));
  }
}

// A divisor equal to the number of targets that count changes no bit.
TEST_P(LinearCrossEntropySuite, DividesByTheNumberThatCounts) {
  for (const Types& types : kTypePairs) {
    LinearCrossEntropyArgs args = Random(33, 12, 100, types);
    args.targets = UploadTokens({33}, std::vector<int32_t>(33, 7));
    Check(args);
    const std::vector<float> loss = Download(args.loss);
    const std::vector<float> dhidden = Download(args.dhidden);
    const std::vector<float> dweight = Download(args.dweight);
    args.divisor = Upload({1}, {33.0f});
    Check(args);
    EXPECT_EQ(Download(args.loss), loss);
    EXPECT_EQ(Download(args.dhidden), dhidden);
    EXPECT_EQ(Download(args.dweight), dweight);
  }
}

TEST_P(LinearCrossEntropySuite, LargeLogitsDoNotOverflow) {
  for (const Types& types : kTypePairs) {
    LinearCrossEntropyArgs args = Random(8, 4, 30, types);
    args.hidden = Upload({8, 4}, RandomNormal(32, 400.0f), types.dtype);
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), args).ok());
    const float loss = Download(args.loss)[0];
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_GT(loss, 10.0f);
    for (const float value : Download(args.dweight)) EXPECT_TRUE(std::isfinite(value));
  }
}

// Logits are 16384 + x, exact in fp32, but adding to them would round by up to 2^-10. The loss
// depends only on differences of logits, so it must be as precise as for small logits.
TEST_P(LinearCrossEntropySuite, TheLossOfLargeLogitsIsPrecise) {
  constexpr int64_t kRows = 40;
  constexpr int64_t kVocab = 30;
  for (const Types& types : kTypePairs) {
    LinearCrossEntropyArgs args = Random(kRows, 2, kVocab, types);
    std::vector<float> hidden;
    for (int64_t row = 0; row < kRows; ++row) hidden.insert(hidden.end(), {16384.0f, 1.0f});
    std::vector<float> weight;
    for (int64_t i = 0; i < kVocab; ++i) {
      weight.insert(weight.end(), {1.0f, static_cast<float>(RandomSize(-127, 127)) / 64});
    }
    args.hidden = Upload({kRows, 2}, hidden, types.dtype);
    args.weight = Upload({kVocab, 2}, weight, types.dtype);
    // Skips dhidden: it is a small difference between a row of the weight and the rows' mean, whose
    // terms are 80 times as large, so their rounding exceeds the tolerance.
    args.dhidden = Tensor();
    // Each run has another row's loss, so that the mean hides no row's error.
    for (int64_t row = 0; row < kRows; row += 7) {
      std::vector<int32_t> targets(kRows, kIgnored);
      targets[static_cast<size_t>(row)] = static_cast<int32_t>(RandomSize(0, kVocab - 1));
      args.targets = UploadTokens({kRows}, targets);
      args.dweight = Unwritten({kVocab, 2}, types.grad_dtype);
      Check(args);
    }
    if (HasFailure()) return;
  }
}

TEST_P(LinearCrossEntropySuite, NanIsNotHidden) {
  for (const DType dtype : kElementTypes) {
    LinearCrossEntropyArgs args = Random(8, 4, 50, {dtype, DType::kFloat32});
    std::vector<float> hidden = RandomNormal(32);
    hidden[1] = std::numeric_limits<float>::quiet_NaN();  // row 0 always counts
    args.hidden = Upload({8, 4}, hidden, dtype);
    ASSERT_TRUE(kernels::LinearCrossEntropy(kernels(), args).ok());
    EXPECT_TRUE(std::isnan(Download(args.loss)[0]));
    EXPECT_TRUE(std::isnan(Download(args.dhidden)[0]));
  }
}

TEST_P(LinearCrossEntropySuite, RefusesTargetsOutsideTheVocabulary) {
  for (const int32_t wrong : {40, -1, -99, -101, std::numeric_limits<int32_t>::max()}) {
    SetUp();  // invalid data fails the stream for good: a new one for every value
    LinearCrossEntropyArgs args = Random(6, 5, 40, {});
    args.targets = UploadTokens({6}, {0, kIgnored, 39, wrong, 41, 0});
    absl::Status status = kernels::LinearCrossEntropy(kernels(), args);
    if (status.ok()) status = kernels().stream().Synchronize();
    ExpectInvalid(status, {"targets[3]", absl::StrCat(wrong), "40"});
  }
}

TEST_P(LinearCrossEntropySuite, RefusesWhatDoesNotFit) {
  LinearCrossEntropyArgs args = Random(6, 5, 40, {});
  args.weight = Unwritten({40, 4});
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args), {"LinearCrossEntropy", "weight"});
  args = Random(6, 5, 40, {});
  args.dhidden = Unwritten({5, 5});
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args), {"LinearCrossEntropy", "dhidden"});
  args = Random(6, 5, 40, {});
  args.targets = Unwritten({6});
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args),
                {"LinearCrossEntropy", "targets", "fp32"});
  args = Random(6, 5, 40, {});
  args.weight = Unwritten({40, 5}, DType::kBFloat16);
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args),
                {"LinearCrossEntropy", "weight", "bf16", "fp32"});
  args = Random(6, 5, 40, {});
  args.dhidden = Unwritten({6, 5}, DType::kBFloat16);
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args),
                {"LinearCrossEntropy", "dhidden", "bf16", "fp32"});
  args = Random(6, 5, 40, {DType::kBFloat16, DType::kBFloat16});
  args.loss = Unwritten({1}, DType::kBFloat16);
  ExpectInvalid(kernels::LinearCrossEntropy(kernels(), args),
                {"LinearCrossEntropy", "loss", "bf16", "fp32"});
}

TEST(LinearCrossEntropyReference, GradientsAreThoseOfTheLoss) {
  constexpr int64_t kDim = 3;
  constexpr int64_t kVocab = 7;
  const std::vector<int32_t> targets = {2, kIgnored, 6, 0};
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> hidden(targets.size() * kDim);
  std::vector<double> weight(kVocab * kDim);
  for (double& x : hidden) x = normal(random);
  for (double& x : weight) x = normal(random);
  const auto result = reference::LinearCrossEntropy(kDim, kVocab, hidden, weight, targets);
  ExpectGradient(
      [&](const std::vector<double>& x) {
        return reference::LinearCrossEntropy(kDim, kVocab, x, weight, targets).loss;
      },
      hidden, result.dhidden);
  ExpectGradient(
      [&](const std::vector<double>& x) {
        return reference::LinearCrossEntropy(kDim, kVocab, hidden, x, targets).loss;
      },
      weight, result.dweight);
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearCrossEntropySuite, testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
