// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

class DistillationSuite : public KernelsSuite {};

namespace {

constexpr int32_t kIgnored = -100;

// The definition, in double, of one row that counts. `x` are the logits before the cap.
double RowLoss(const std::vector<double>& x, int32_t target, const std::vector<int32_t>& ids,
               const std::vector<double>& log_probs, DistillationOptions options, double cap) {
  const auto temperature = static_cast<double>(options.temperature);
  const auto alpha = static_cast<double>(options.alpha);
  std::vector<double> capped = x;
  for (double& value : capped) value = cap > 0 ? cap * std::tanh(value / cap) : value;
  const auto log_sum = [](const std::vector<double>& values, double divisor) {
    double sum = 0;
    for (const double value : values) sum += std::exp(value / divisor);
    return std::log(sum);
  };
  const double teacher_sum = log_sum(log_probs, temperature);
  const double student_sum = log_sum(capped, temperature);
  double kl = 0;
  for (size_t j = 0; j < ids.size(); ++j) {
    const double log_p = log_probs[j] / temperature - teacher_sum;
    const double log_q = capped[static_cast<size_t>(ids[j])] / temperature - student_sum;
    kl += std::exp(log_p) * (log_p - log_q);
  }
  const double next_token = log_sum(capped, 1) - capped[static_cast<size_t>(target)];
  return alpha * temperature * temperature * kl + (1 - alpha) * next_token;
}

std::vector<double> Slice(const std::vector<float>& values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

}  // namespace

TEST_P(DistillationSuite, PartsTogetherAreTheDefinition) {
  for (int trial = 0; trial < 36; ++trial) {
    const DType dtype = kElementTypes[trial % 3];
    const int64_t rows = RandomSize(1, 12);
    const int64_t vocab = RandomSize(2, 90);
    const int64_t parts = RandomSize(1, 4);
    const int64_t k = RandomSize(1, vocab);
    DistillationOptions options;
    options.alpha = std::vector<float>{0.0f, 0.3f, 1.0f}[static_cast<size_t>(RandomSize(0, 2))];
    options.temperature = std::vector<float>{1.0f, 2.5f, 0.5f}[static_cast<size_t>(trial / 3 % 3)];
    const double cap = trial % 2 == 0 ? 0 : 4;
    const int64_t padding = trial % 4 < 2 ? 0 : RandomSize(1, 9);
    const std::vector<float> raw = RandomNormal(rows * vocab, 2.0f);
    std::vector<float> logits = raw;
    for (float& x : logits) x = cap > 0 ? static_cast<float>(cap * std::tanh(x / cap)) : x;
    const std::vector<float> log_probs = RandomNormal(rows * k, 1.5f);
    std::vector<int32_t> ids;
    std::vector<int32_t> targets;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> all(static_cast<size_t>(vocab));
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random());
      ids.insert(ids.end(), all.begin(), all.begin() + k);
      targets.push_back(row > 0 && RandomSize(0, 3) == 0
                            ? kIgnored
                            : static_cast<int32_t>(RandomSize(0, vocab - 1)));
    }
    std::vector<double> losses;
    std::vector<double> gradient;
    constexpr double kDivisor = 3;
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t target = targets[static_cast<size_t>(row)];
      const std::vector<int32_t> row_ids(ids.begin() + row * k, ids.begin() + (row + 1) * k);
      std::vector<double> x = Slice(raw, row * vocab, vocab);
      const auto loss = [&] {
        return target == kIgnored
                   ? 0
                   : RowLoss(x, target, row_ids, Slice(log_probs, row * k, k), options, cap);
      };
      losses.push_back(loss());
      for (double& value : x) {
        constexpr double kStep = 1e-5;
        const double at = value;
        value = at + kStep;
        const double above = loss();
        value = at - kStep;
        gradient.push_back((above - loss()) / (2 * kStep) / kDivisor);
        value = at;
      }
    }
    const Tensor statistics = Unwritten({parts, rows, kDistillStatistics});
    const Tensor all_ids = UploadTokens({rows, k}, ids);
    const Tensor all_log_probs = Upload({rows, k}, log_probs);
    const auto begin_of = [&](int64_t part) { return vocab * part / parts; };
    std::vector<DistillGradientArgs> of_parts;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = begin_of(part);
      const int64_t count = begin_of(part + 1) - begin;
      std::vector<float> columns;
      std::vector<int32_t> local;
      for (int64_t row = 0; row < rows; ++row) {
        const auto first = logits.begin() + row * vocab + begin;
        columns.insert(columns.end(), first, first + count);
        columns.insert(columns.end(), static_cast<size_t>(padding), 50.0f);
        const int32_t target = targets[static_cast<size_t>(row)];
        const bool is_here = target >= begin && target < begin + count;
        local.push_back(
            target == kIgnored ? kIgnored : static_cast<int32_t>(is_here ? target - begin : count));
      }
      DistillGradientArgs& args = of_parts.emplace_back();
      args.teacher = {all_ids, all_log_probs, begin, options};
      args.logits = Upload({rows, count + padding}, columns);
      args.padding = padding;
      args.targets = UploadTokens({rows}, local);
      args.statistics = statistics;
      args.divisor = Upload({1}, {static_cast<float>(kDivisor)});
      args.logit_cap = static_cast<float>(cap);
      args.losses = Unwritten({rows});
      args.dlogits =
          dtype == DType::kFloat32 ? args.logits : Unwritten({rows, count + padding}, dtype);
      ASSERT_TRUE(kernels::DistillStatistics(kernels(),
                                             {args.teacher, args.logits, 0, count, args.targets,
                                              statistics.View(part * rows * kDistillStatistics,
                                                              Shape({rows, kDistillStatistics}))})
                      .ok());
    }
    for (int64_t part = 0; part < parts; ++part) {
      const DistillGradientArgs& args = of_parts[static_cast<size_t>(part)];
      ASSERT_TRUE(kernels::DistillGradient(kernels(), args).ok());
      ExpectClose(Download(args.losses), losses, 2e-6, 4e-6, "losses");
      std::vector<double> expected;
      for (int64_t row = 0; row < rows; ++row) {
        const auto first = gradient.begin() + row * vocab + begin_of(part);
        expected.insert(expected.end(), first, first + args.logits.dim(1) - padding);
        expected.insert(expected.end(), static_cast<size_t>(padding), 0.0);
      }
      ExpectCloseIn(dtype, Download(args.dlogits), expected, 4e-6, 4e-7, "dlogits");
    }
  }
}

TEST_P(DistillationSuite, RefusesWrongArguments) {
  DistillStatisticsArgs args;
  args.teacher = {UploadTokens({2, 3}, {0, 1, 2, 0, 1, 2}), Upload({2, 3}, RandomNormal(6)), 0, {}};
  args.logits = Upload({2, 5}, RandomNormal(10));
  args.count = 5;
  args.targets = UploadTokens({2}, {0, 1});
  args.statistics = Unwritten({2, kDistillStatistics});
  DistillStatisticsArgs wrong = args;
  wrong.teacher.log_probs = Upload({2, 2}, RandomNormal(4));
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"DistillStatistics", "log_probs"});
  wrong = args;
  wrong.teacher.options.temperature = 0;
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"temperature", "above 0"});
  wrong = args;
  wrong.teacher.options.alpha = 1.5f;
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"alpha", "0 to 1"});
  wrong = args;
  wrong.count = 6;
  ExpectInvalid(kernels::DistillStatistics(kernels(), wrong), {"count", "a part of 5"});
}

INSTANTIATE_TEST_SUITE_P(Devices, DistillationSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
