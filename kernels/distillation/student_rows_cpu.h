// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The rows of a student, whose loss is
//   alpha T^2 divergence + (1 - alpha) cross-entropy.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/vocabulary/row_parts_cpu.h"

namespace zeroth::cpu {

// The student's part of the gradient of a row's logits x, before the slope of the cap, is
//   soft e^(x / T - soft_max) + hard e^(x - hard_max).
struct StudentRow {
  float inverse_temperature = 1;
  float soft = 0;
  float soft_max = 0;
  float hard = 0;
  float hard_max = 0;
  float cap = 0;  // 0: none
  // Factors of the probabilities that the teacher and the target subtract.
  double of_teacher = 0;
  double of_target = 0;
};

// Writes the first kSoftmaxStatistics statistics of each row. `write`(row, out, buffers) writes the
// others to `out`; it can reuse the Buffers of earlier rows.
template <int64_t kStatistics, typename Buffers, typename Write>
absl::Status StudentStatistics(const SoftmaxStatisticsCall& call, const Write& write) {
  return ForRows(call.rows, call.count, [&](int64_t begin, int64_t end) {
    Buffers buffers;
    for (int64_t row = begin; row < end; ++row) {
      float* const out = call.statistics + row * kStatistics;
      if (call.targets[row] == kIgnoredTarget) {
        std::fill_n(out, kStatistics, 0.0f);
        continue;
      }
      WriteSoftmaxStatistics(call, row, out);
      write(row, out, buffers);
    }
  });
}

// Writes losses and, if they are wanted, gradients. `divergence`(row, soft, buffers) returns the
// row's divergence, where `soft` is the row's maximum and sum at the temperature (statistics 3 and
// 4). Then `write`(row, student, buffers, to) writes the gradients of the columns that are tokens.
template <int64_t kStatistics, typename Buffers, typename DivergenceOf, typename Write>
absl::Status StudentGradient(const PartGradientCall& call, const DistillationOptions& options,
                             const DivergenceOf& divergence, const Write& write) {
  const auto divisor = static_cast<double>(*call.divisor);
  const double factor = divisor == 0 ? 0.0 : static_cast<double>(call.grad_scale) / divisor;
  const auto alpha = static_cast<double>(options.alpha);
  const auto temperature = static_cast<double>(options.temperature);
  return ForRows(call.rows, call.columns, [&](int64_t begin, int64_t end) {
    Buffers buffers;
    for (int64_t row = begin; row < end; ++row) {
      void* const to = Advance(call.dlogits, row * call.columns, call.dtype);
      const auto clear = [&](int64_t first) {
        std::memset(Advance(to, first, call.dtype), 0,
                    static_cast<size_t>(call.columns - first) * SizeOf(call.dtype));
      };
      if (call.targets[row] == kIgnoredTarget) {
        call.losses[row] = 0.0f;
        if (to != nullptr) clear(0);
        continue;
      }
      const SoftmaxSum hard = Combine<kStatistics>(call, row, 0);
      const SoftmaxSum soft = Combine<kStatistics>(call, row, 3);
      const double next_token = LogOf(hard) - SumOfParts<kStatistics>(call, row, 2);
      call.losses[row] =
          static_cast<float>(alpha * temperature * temperature * divergence(row, soft, buffers) +
                             (1 - alpha) * next_token);
      if (to == nullptr) continue;
      StudentRow student;
      student.of_teacher = factor * alpha * temperature;
      student.of_target = factor * (1 - alpha);
      student.inverse_temperature = 1.0f / options.temperature;
      student.soft = static_cast<float>(student.of_teacher / soft.sum);
      student.soft_max = soft.max;
      student.hard = static_cast<float>(student.of_target / hard.sum);
      student.hard_max = hard.max;
      student.cap = call.logit_cap;
      write(row, student, buffers, to);
      clear(call.columns - call.padding);
    }
  });
}

}  // namespace zeroth::cpu
