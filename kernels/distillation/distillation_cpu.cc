// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <vector>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/distillation/student_rows_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"
#include "zeroth/kernels/vocabulary/row_parts_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/distillation/distillation_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

#ifndef ZEROTH_DISTILL_ROW
#define ZEROTH_DISTILL_ROW
namespace zeroth::cpu {
namespace {

// The columns from whose gradients a probability of the teacher or of the target is subtracted, and
// how much.
struct SubtractedColumns {
  std::vector<int64_t> columns;
  std::vector<float> logits;
  std::vector<float> by;
};

struct Buffers {
  std::vector<double> p;  // the teacher's probabilities
  std::vector<float> scaled;
  SubtractedColumns subtracted;
};

}  // namespace
}  // namespace zeroth::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void WriteGradientRow(const StudentRow& row, const float* x, int64_t n,
                      SubtractedColumns& subtracted, DType dtype, void* to) {
  const auto slope = [&row](auto d, auto v, auto gradient) HWY_ATTR {
    return row.cap > 0 ? hn::Mul(gradient, SoftCapSlope(d, v, row.cap)) : gradient;
  };
  const auto dense = [&row](auto d, auto v) HWY_ATTR {
    const auto scaled = hn::Mul(v, hn::Set(d, row.inverse_temperature));
    const auto soft =
        hn::Mul(hn::Set(d, row.soft), Exp(d, hn::Sub(scaled, hn::Set(d, row.soft_max))));
    if (row.hard == 0) return soft;
    return hn::Add(soft,
                   hn::Mul(hn::Set(d, row.hard), Exp(d, hn::Sub(v, hn::Set(d, row.hard_max)))));
  };
  // Before `to`, which may be x, is written.
  const size_t few = subtracted.columns.size();
  for (size_t i = 0; i < few; ++i) subtracted.logits[i] = x[subtracted.columns[i]];
  Transform(
      few, subtracted.by.data(),
      [&](auto d, auto by, auto v) HWY_ATTR { return slope(d, v, hn::Sub(dense(d, v), by)); },
      static_cast<const float*>(subtracted.by.data()),
      static_cast<const float*>(subtracted.logits.data()));
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    T* const out = static_cast<T*>(to);
    Transform(
        static_cast<size_t>(n), out,
        [&](auto d, auto v) HWY_ATTR { return slope(d, v, dense(d, v)); }, x);
    for (size_t i = 0; i < few; ++i) {
      Convert(size_t{1}, out + subtracted.columns[i], subtracted.by.data() + i);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(WriteGradientRow);

// Writes the teacher's probabilities at the temperature, and returns the sum of p log p.
double TeacherProbabilities(const TeacherCall& teacher, int64_t row, std::vector<double>& p) {
  const float* const log_probs = teacher.log_probs + row * teacher.k;
  const auto temperature = static_cast<double>(teacher.options.temperature);
  const auto largest = static_cast<double>(*std::max_element(log_probs, log_probs + teacher.k));
  double sum = 0;
  p.resize(static_cast<size_t>(teacher.k));
  for (int64_t j = 0; j < teacher.k; ++j) {
    p[static_cast<size_t>(j)] = (static_cast<double>(log_probs[j]) - largest) / temperature;
    sum += std::exp(p[static_cast<size_t>(j)]);
  }
  double entropy = 0;
  for (double& value : p) {
    const double log_p = value - std::log(sum);
    value = std::exp(log_p);
    if (value > 0) entropy += value * log_p;
  }
  return entropy;
}

absl::Status DistillStatistics(const DistillStatisticsCall& call, CpuKernels&) {
  const TeacherCall& teacher = call.teacher;
  const float inverse = 1.0f / teacher.options.temperature;
  return StudentStatistics<kDistillStatistics, Buffers>(
      call, [&](int64_t row, float* out, Buffers& buffers) {
        const float* const x = call.logits + row * call.columns + call.begin;
        if (inverse == 1.0f) {
          out[3] = out[0];
          out[4] = out[1];
        } else {
          buffers.scaled.resize(static_cast<size_t>(call.count));
          std::transform(x, x + call.count, buffers.scaled.begin(),
                         [inverse](float value) { return value * inverse; });
          SoftmaxPart(buffers.scaled.data(), call.count, out[3], out[4]);
        }
        TeacherProbabilities(teacher, row, buffers.p);
        double sum = 0;
        for (int64_t j = 0; j < teacher.k; ++j) {
          const int64_t column = teacher.ids[row * teacher.k + j] - teacher.first - call.begin;
          if (column < 0 || column >= call.count) continue;
          sum += buffers.p[static_cast<size_t>(j)] * static_cast<double>(x[column] * inverse);
        }
        out[5] = static_cast<float>(sum);
      });
}
const OnCpu<DistillStatistics> distill_statistics;

// Lists the columns of the teacher and the target, and what is subtracted from their gradients.
void FindSubtracted(const DistillGradientCall& call, int64_t row, const std::vector<double>& p,
                    double of_teacher, double of_target, SubtractedColumns& subtracted) {
  const int64_t tokens = call.columns - call.padding;
  subtracted.columns.clear();
  subtracted.by.clear();
  int64_t target = call.targets[row];
  if (target >= tokens) target = -1;  // in another part
  for (int64_t j = 0; j < call.teacher.k; ++j) {
    const int64_t column = call.teacher.ids[row * call.teacher.k + j] - call.teacher.first;
    if (column < 0 || column >= tokens) continue;
    double by = of_teacher * p[static_cast<size_t>(j)];
    if (column == target) {
      by += of_target;
      target = -1;
    }
    subtracted.columns.push_back(column);
    subtracted.by.push_back(static_cast<float>(by));
  }
  if (target >= 0) {
    subtracted.columns.push_back(target);
    subtracted.by.push_back(static_cast<float>(of_target));
  }
  subtracted.logits.resize(subtracted.columns.size());
}

absl::Status DistillGradient(const DistillGradientCall& call, CpuKernels&) {
  return StudentGradient<kDistillStatistics, Buffers>(
      call, call.teacher.options,
      [&](int64_t row, const SoftmaxSum& soft, Buffers& buffers) {
        const double entropy = TeacherProbabilities(call.teacher, row, buffers.p);
        return entropy - SumOfParts<kDistillStatistics>(call, row, 5) + LogOf(soft);
      },
      [&](int64_t row, const StudentRow& student, Buffers& buffers, void* to) {
        FindSubtracted(call, row, buffers.p, student.of_teacher, student.of_target,
                       buffers.subtracted);
        HWY_DYNAMIC_DISPATCH(WriteGradientRow)
        (student, call.logits + row * call.columns, call.columns - call.padding, buffers.subtracted,
         call.dtype, to);
      });
}
const OnCpu<DistillGradient> distill_gradient;

}  // namespace
}  // namespace zeroth::cpu
#endif
