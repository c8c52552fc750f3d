// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth {

class VocabularySuite : public KernelsSuite {};

namespace {

constexpr int32_t kIgnored = -100;

// The softmax cross-entropy of whole rows, in double.
struct WholeLoss {
  std::vector<double> losses;
  std::vector<double> gradient;  // of the mean
};

// If `cap` is above 0, `logits` are capped, and the gradient is that of the logits before the cap.
WholeLoss Reference(int64_t rows, int64_t vocab, const std::vector<float>& logits,
                    const std::vector<int32_t>& targets, double cap) {
  WholeLoss whole;
  double counted = 0;
  for (const int32_t target : targets) counted += target == kIgnored ? 0 : 1;
  for (int64_t row = 0; row < rows; ++row) {
    const float* const x = logits.data() + row * vocab;
    const int32_t target = targets[static_cast<size_t>(row)];
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(x[i]));
    const bool counts = target != kIgnored;
    whole.losses.push_back(counts ? std::log(sum) - static_cast<double>(x[target]) : 0);
    for (int64_t i = 0; i < vocab; ++i) {
      const double p = std::exp(static_cast<double>(x[i])) / sum - (i == target ? 1 : 0);
      const double t = cap > 0 ? static_cast<double>(x[i]) / cap : 0;
      whole.gradient.push_back(counts ? p / counted * (1 - t * t) : 0);
    }
  }
  return whole;
}

}  // namespace

TEST_P(VocabularySuite, PartsTogetherAreTheWholeSoftmax) {
  for (int trial = 0; trial < 40; ++trial) {
    const DType dtype = kElementTypes[trial % 3];
    const int64_t rows = RandomSize(1, 40);
    const int64_t vocab = RandomSize(1, 300);
    const int64_t parts = RandomSize(1, 5);
    std::vector<float> logits = RandomNormal(rows * vocab, 3.0f);
    const float cap = trial % 2 == 0 ? 0.0f : 4.0f;
    const int64_t padding = trial % 4 < 2 ? 0 : RandomSize(1, 9);
    for (float& x : logits) x = cap > 0 ? cap * std::tanh(x / cap) : x;
    std::vector<int32_t> targets;
    for (int64_t row = 0; row < rows; ++row) {
      targets.push_back(RandomSize(0, 4) == 0 ? kIgnored
                                              : static_cast<int32_t>(RandomSize(0, vocab - 1)));
    }
    targets[0] = static_cast<int32_t>(vocab - 1);
    const WholeLoss expected = Reference(rows, vocab, logits, targets, static_cast<double>(cap));
    const Tensor statistics = Unwritten({parts, rows, kSoftmaxStatistics});
    const Tensor all_targets = UploadTokens({rows}, targets);
    const auto begin_of = [&](int64_t part) { return vocab * part / parts; };
    std::vector<Tensor> local_logits;
    std::vector<Tensor> local_targets;
    const Tensor counted = Unwritten({1});
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = begin_of(part);
      const int64_t count = begin_of(part + 1) - begin;
      std::vector<float> columns;
      for (int64_t row = 0; row < rows; ++row) {
        const auto first = logits.begin() + row * vocab + begin;
        columns.insert(columns.end(), first, first + count);
        columns.insert(columns.end(), static_cast<size_t>(padding), 50.0f);
      }
      local_logits.push_back(Upload({rows, count + padding}, columns));
      local_targets.push_back(UploadTokens({rows}, std::vector<int32_t>(rows)));
      ASSERT_TRUE(kernels::LocalIds(
                      kernels(), {all_targets, begin, count, vocab, local_targets.back(), counted})
                      .ok());
      ASSERT_TRUE(kernels::SoftmaxStatistics(kernels(),
                                             {local_logits.back(), 0, count, local_targets.back(),
                                              statistics.View(part * rows * kSoftmaxStatistics,
                                                              Shape({rows, kSoftmaxStatistics}))})
                      .ok());
    }
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = begin_of(part);
      const int64_t count = begin_of(part + 1) - begin;
      SoftmaxGradientArgs args;
      args.logits = local_logits[static_cast<size_t>(part)];
      args.targets = local_targets[static_cast<size_t>(part)];
      args.statistics = statistics;
      args.divisor = counted;
      args.logit_cap = cap;
      args.padding = padding;
      args.losses = Unwritten({rows});
      args.dlogits =
          dtype == DType::kFloat32 ? args.logits : Unwritten({rows, count + padding}, dtype);
      ASSERT_TRUE(kernels::SoftmaxGradient(kernels(), args).ok());
      ExpectClose(Download(args.losses), expected.losses, 1e-6, 1e-6, "losses");
      std::vector<double> gradient;
      for (int64_t row = 0; row < rows; ++row) {
        const auto first = expected.gradient.begin() + row * vocab + begin;
        gradient.insert(gradient.end(), first, first + count);
        gradient.insert(gradient.end(), static_cast<size_t>(padding), 0.0);
      }
      ExpectCloseIn(dtype, Download(args.dlogits), gradient, 4e-6, 1e-9, "dlogits");
      const Tensor loss = Unwritten({1});
      ASSERT_TRUE(kernels::MeanLoss(kernels(), {args.losses, counted, loss}).ok());
      double mean = 0;
      double rows_counted = 0;
      for (int64_t row = 0; row < rows; ++row) {
        mean += expected.losses[static_cast<size_t>(row)];
        rows_counted += targets[static_cast<size_t>(row)] == kIgnored ? 0 : 1;
      }
      ExpectClose(Download(loss), {mean / rows_counted}, 1e-6, 1e-7, "loss");
    }
  }
}

TEST_P(VocabularySuite, RefusesMorePaddingThanColumns) {
  SoftmaxGradientArgs args;
  args.logits = Upload({2, 3}, RandomNormal(6));
  args.targets = UploadTokens({2}, {0, 1});
  args.statistics = Unwritten({1, 2, kSoftmaxStatistics});
  args.divisor = Upload({1}, {2.0f});
  args.losses = Unwritten({2});
  args.padding = 4;
  ExpectInvalid(kernels::SoftmaxGradient(kernels(), args), {"padding", "is 4", "3 columns"});
}

// Llama 3's sizes: the chunks are as large as those of the device's undivided loss.
TEST_P(VocabularySuite, PlansTheLossForTheDevice) {
  const absl::StatusOr<DividedLossPlan> plan =
      kernels::PlanDividedLoss(kernels(), 8192, 4096, 128256);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const bool is_gpu = kernels().device().type() == "cuda";
  EXPECT_EQ(plan->chunk_rows, is_gpu ? 2048 : 128);
  EXPECT_EQ(plan->column_step, is_gpu ? 8 : 1);
}

TEST_P(VocabularySuite, SaysWhichTokensAreHere) {
  const Tensor local = UploadTokens({2, 3}, std::vector<int32_t>(6));
  ASSERT_TRUE(kernels::LocalIds(
                  kernels(), {UploadTokens({2, 3}, {0, 4, 5, 9, 7, 8}), 5, 3, 10, local, Tensor()})
                  .ok());
  const absl::StatusOr<std::vector<int32_t>> values = local.ToHost<int32_t>();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<int32_t>{3, 3, 0, 3, 2, 3}));
}

INSTANTIATE_TEST_SUITE_P(Devices, VocabularySuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
