// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of a student's losses, whose vocabulary is divided into parts.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {

// Returns the logarithms of the probabilities at a temperature.
inline std::vector<double> LogSoftmax(const std::vector<double>& logits, double temperature) {
  double sum = 0;
  for (const double x : logits) sum += std::exp(x / temperature);
  std::vector<double> result;
  for (const double x : logits) result.push_back(x / temperature - std::log(sum));
  return result;
}

inline std::vector<double> Slice(const std::vector<float>& values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

// Returns columns [begin, begin + count) of [rows, vocab], with `padding` columns of `filler`.
template <typename T>
std::vector<T> PaddedColumns(const std::vector<T>& values, int64_t rows, int64_t vocab,
                             int64_t begin, int64_t count, int64_t padding, T filler) {
  std::vector<T> columns;
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = values.begin() + row * vocab + begin;
    columns.insert(columns.end(), first, first + count);
    columns.insert(columns.end(), static_cast<size_t>(padding), filler);
  }
  return columns;
}

class StudentSuite : public KernelsSuite {
 protected:
  static constexpr int32_t kIgnored = -100;

  struct Case {
    DType dtype = DType::kFloat32;  // of the gradients
    int64_t rows = 0;
    int64_t vocab = 0;
    int64_t parts = 0;
    int64_t padding = 0;
    double cap = 0;
    DistillationOptions options;
    std::vector<float> logits;  // [rows, vocab], before the cap
    std::vector<int32_t> targets;
  };

  Case Draw(int trial) {
    Case drawn;
    drawn.dtype = kElementTypes[trial % 3];
    drawn.rows = RandomSize(1, 12);
    drawn.vocab = RandomSize(2, 90);
    drawn.parts = RandomSize(1, 4);
    drawn.padding = trial % 4 < 2 ? 0 : RandomSize(1, 9);
    drawn.cap = trial % 2 == 0 ? 0 : 4;
    drawn.options.alpha =
        std::vector<float>{0.0f, 0.3f, 1.0f}[static_cast<size_t>(RandomSize(0, 2))];
    drawn.options.temperature =
        std::vector<float>{1.0f, 2.5f, 0.5f}[static_cast<size_t>(trial / 3 % 3)];
    drawn.logits = RandomNormal(drawn.rows * drawn.vocab, 2.0f);
    for (int64_t row = 0; row < drawn.rows; ++row) {
      drawn.targets.push_back(row > 0 && RandomSize(0, 3) == 0
                                  ? kIgnored
                                  : static_cast<int32_t>(RandomSize(0, drawn.vocab - 1)));
    }
    return drawn;
  }

  // Compares losses and gradients of parts with the definition in double, whose derivatives are
  // numerical. `divergence`(row, log_q) is that of a row, for the student's log-probabilities at
  // the temperature; `set_teacher`(args, begin, count) sets the teacher of columns [begin, begin +
  // count).
  template <typename StatisticsArgs, typename GradientArgs, typename DivergenceOf,
            typename SetTeacher>
  void ExpectTheDefinition(const Case& of, int64_t statistics_count, const DivergenceOf& divergence,
                           const SetTeacher& set_teacher,
                           absl::Status (*compute_statistics)(Kernels&, const StatisticsArgs&),
                           absl::Status (*compute_gradient)(Kernels&, const GradientArgs&)) {
    constexpr double kDivisor = 3;
    const auto temperature = static_cast<double>(of.options.temperature);
    const auto alpha = static_cast<double>(of.options.alpha);
    const auto capped = [&of](double x) { return of.cap > 0 ? of.cap * std::tanh(x / of.cap) : x; };
    std::vector<double> losses;
    std::vector<double> gradient;
    for (int64_t row = 0; row < of.rows; ++row) {
      const int32_t target = of.targets[static_cast<size_t>(row)];
      std::vector<double> x = Slice(of.logits, row * of.vocab, of.vocab);
      const auto loss = [&] {
        if (target == kIgnored) return 0.0;
        std::vector<double> logits;
        for (const double value : x) logits.push_back(capped(value));
        return alpha * temperature * temperature *
                   divergence(row, LogSoftmax(logits, temperature)) -
               (1 - alpha) * LogSoftmax(logits, 1)[static_cast<size_t>(target)];
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
    std::vector<float> logits;
    for (const float x : of.logits)
      logits.push_back(static_cast<float>(capped(static_cast<double>(x))));
    const Tensor statistics = Unwritten({of.parts, of.rows, statistics_count});
    const auto begin_of = [&](int64_t part) { return of.vocab * part / of.parts; };
    std::vector<GradientArgs> of_parts;
    for (int64_t part = 0; part < of.parts; ++part) {
      const int64_t begin = begin_of(part);
      const int64_t count = begin_of(part + 1) - begin;
      std::vector<int32_t> local;
      for (const int32_t target : of.targets) {
        const bool is_here = target >= begin && target < begin + count;
        local.push_back(
            target == kIgnored ? kIgnored : static_cast<int32_t>(is_here ? target - begin : count));
      }
      GradientArgs& args = of_parts.emplace_back();
      args.logits =
          Upload({of.rows, count + of.padding},
                 PaddedColumns(logits, of.rows, of.vocab, begin, count, of.padding, 50.0f));
      args.padding = of.padding;
      args.targets = UploadTokens({of.rows}, local);
      args.statistics = statistics;
      args.divisor = Upload({1}, {static_cast<float>(kDivisor)});
      args.logit_cap = static_cast<float>(of.cap);
      args.losses = Unwritten({of.rows});
      args.dlogits = of.dtype == DType::kFloat32
                         ? args.logits
                         : Unwritten({of.rows, count + of.padding}, of.dtype);
      set_teacher(args, begin, count);
      StatisticsArgs part_args;
      part_args.logits = args.logits;
      part_args.count = count;
      part_args.targets = args.targets;
      part_args.statistics =
          statistics.View(part * of.rows * statistics_count, Shape({of.rows, statistics_count}));
      set_teacher(part_args, begin, count);
      ASSERT_TRUE(compute_statistics(kernels(), part_args).ok());
    }
    for (int64_t part = 0; part < of.parts; ++part) {
      const GradientArgs& args = of_parts[static_cast<size_t>(part)];
      ASSERT_TRUE(compute_gradient(kernels(), args).ok());
      ExpectClose(Download(args.losses), losses, 2e-6, 4e-6, "losses");
      ExpectCloseIn(of.dtype, Download(args.dlogits),
                    PaddedColumns(gradient, of.rows, of.vocab, begin_of(part),
                                  args.logits.dim(1) - of.padding, of.padding, 0.0),
                    4e-6, 4e-7, "dlogits");
    }
  }
};

}  // namespace zeroth
