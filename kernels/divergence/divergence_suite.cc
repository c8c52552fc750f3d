// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/divergence/divergence.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

class DivergenceSuite : public KernelsSuite {};

namespace {

constexpr int32_t kIgnored = -100;

// Returns the logarithms of the probabilities at a temperature.
std::vector<double> LogSoftmax(const std::vector<double>& logits, double temperature) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x / temperature);
  std::vector<double> result;
  for (const double x : logits) result.push_back(x / temperature - std::log(sum));
  return result;
}

// The definition, in double, of one row that counts. `x` are the logits before the cap.
double RowLoss(const std::vector<double>& x, const std::vector<double>& teacher, int32_t target,
               DistillationOptions options, double cap) {
  const auto temperature = static_cast<double>(options.temperature);
  const auto alpha = static_cast<double>(options.alpha);
  std::vector<double> capped = x;
  for (double& value : capped) value = cap > 0 ? cap * std::tanh(value / cap) : value;
  std::vector<double> log_p = LogSoftmax(teacher, temperature);
  std::vector<double> log_q = LogSoftmax(capped, temperature);
  if (options.divergence == Divergence::kReverse) std::swap(log_p, log_q);
  double kl = 0;
  for (size_t i = 0; i < log_p.size(); ++i) kl += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
  const double next_token = -LogSoftmax(capped, 1)[static_cast<size_t>(target)];
  return alpha * temperature * temperature * kl + (1 - alpha) * next_token;
}

std::vector<double> Slice(const std::vector<float>& values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

// Returns columns [begin, begin + count) of [rows, vocab].
template <typename T>
std::vector<T> Columns(const std::vector<T>& values, int64_t rows, int64_t vocab, int64_t begin,
                       int64_t count) {
  std::vector<T> columns;
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = values.begin() + row * vocab + begin;
    columns.insert(columns.end(), first, first + count);
  }
  return columns;
}

}  // namespace

TEST_P(DivergenceSuite, PartsTogetherAreTheDefinition) {
  for (int trial = 0; trial < 72; ++trial) {
    const DType dtype = kElementTypes[trial % 3];
    const int64_t rows = RandomSize(1, 12);
    const int64_t vocab = RandomSize(2, 90);
    const int64_t parts = RandomSize(1, 4);
    DistillationOptions options;
    options.divergence = trial % 4 < 2 ? Divergence::kForward : Divergence::kReverse;
    options.alpha = std::vector<float>{0.0f, 0.3f, 1.0f}[static_cast<size_t>(RandomSize(0, 2))];
    options.temperature = std::vector<float>{1.0f, 2.5f, 0.5f}[static_cast<size_t>(trial / 3 % 3)];
    const double cap = trial % 2 == 0 ? 0 : 4;
    const std::vector<float> raw = RandomNormal(rows * vocab, 2.0f);
    const std::vector<float> teacher = RandomNormal(rows * vocab, 1.5f);
    std::vector<float> logits = raw;
    for (float& x : logits) x = cap > 0 ? static_cast<float>(cap * std::tanh(x / cap)) : x;
    std::vector<int32_t> targets;
    for (int64_t row = 0; row < rows; ++row) {
      targets.push_back(row > 0 && RandomSize(0, 3) == 0
                            ? kIgnored
                            : static_cast<int32_t>(RandomSize(0, vocab - 1)));
    }
    std::vector<double> losses;
    std::vector<double> gradient;
    constexpr double kDivisor = 3;
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t target = targets[static_cast<size_t>(row)];
      const std::vector<double> of_teacher = Slice(teacher, row * vocab, vocab);
      std::vector<double> x = Slice(raw, row * vocab, vocab);
      const auto loss = [&] {
        return target == kIgnored ? 0 : RowLoss(x, of_teacher, target, options, cap);
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
    const Tensor statistics = Unwritten({parts, rows, kDivergenceStatistics});
    const auto begin_of = [&](int64_t part) { return vocab * part / parts; };
    std::vector<DivergenceGradientArgs> of_parts;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = begin_of(part);
      const int64_t count = begin_of(part + 1) - begin;
      std::vector<int32_t> local;
      for (const int32_t target : targets) {
        const bool is_here = target >= begin && target < begin + count;
        local.push_back(
            target == kIgnored ? kIgnored : static_cast<int32_t>(is_here ? target - begin : count));
      }
      DivergenceGradientArgs& args = of_parts.emplace_back();
      args.options = options;
      args.teacher = Upload({rows, count}, Columns(teacher, rows, vocab, begin, count));
      args.logits = Upload({rows, count}, Columns(logits, rows, vocab, begin, count));
      args.targets = UploadTokens({rows}, local);
      args.statistics = statistics;
      args.divisor = Upload({1}, {static_cast<float>(kDivisor)});
      args.logit_cap = static_cast<float>(cap);
      args.losses = Unwritten({rows});
      args.dlogits = dtype == DType::kFloat32 ? args.logits : Unwritten({rows, count}, dtype);
      ASSERT_TRUE(kernels::DivergenceStatistics(
                      kernels(), {options, args.teacher, args.logits, 0, count, args.targets,
                                  statistics.View(part * rows * kDivergenceStatistics,
                                                  Shape({rows, kDivergenceStatistics}))})
                      .ok());
    }
    for (int64_t part = 0; part < parts; ++part) {
      const DivergenceGradientArgs& args = of_parts[static_cast<size_t>(part)];
      ASSERT_TRUE(kernels::DivergenceGradient(kernels(), args).ok());
      ExpectClose(Download(args.losses), losses, 2e-6, 4e-6, "losses");
      ExpectCloseIn(dtype, Download(args.dlogits),
                    Columns(gradient, rows, vocab, begin_of(part), args.logits.dim(1)), 4e-6, 4e-7,
                    "dlogits");
    }
  }
}

TEST_P(DivergenceSuite, RefusesWrongArguments) {
  DivergenceStatisticsArgs args;
  args.teacher = Upload({2, 5}, RandomNormal(10));
  args.logits = Upload({2, 5}, RandomNormal(10));
  args.count = 5;
  args.targets = UploadTokens({2}, {0, 1});
  args.statistics = Unwritten({2, kDivergenceStatistics});
  DivergenceStatisticsArgs wrong = args;
  wrong.teacher = Upload({2, 4}, RandomNormal(8));
  ExpectInvalid(kernels::DivergenceStatistics(kernels(), wrong),
                {"DivergenceStatistics", "teacher", "[2, 5]"});
  wrong = args;
  wrong.options.temperature = 0;
  ExpectInvalid(kernels::DivergenceStatistics(kernels(), wrong), {"temperature", "above 0"});
  wrong = args;
  wrong.count = 6;
  ExpectInvalid(kernels::DivergenceStatistics(kernels(), wrong), {"count", "a part of 5"});
}

INSTANTIATE_TEST_SUITE_P(Devices, DivergenceSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
