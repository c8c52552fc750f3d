// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <vector>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/distillation/student_rows_cpu.h"
#include "zeroth/kernels/divergence/divergence.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"
#include "zeroth/kernels/vocabulary/row_parts_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/divergence/divergence_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

#ifndef ZEROTH_DIVERGENCE_ROW
#define ZEROTH_DIVERGENCE_ROW
namespace zeroth::cpu {
namespace {

// The gradient of a row's logits x, for a teacher's logits z, is
//   soft e^(x / T - soft_max) s + hard e^(x - hard_max) - teacher e^(z / T - teacher_max),
// where s is 1, or in the reverse divergence (x - z) / T - mean. At the target, of_target is
// subtracted. Then the slope of the cap multiplies all of it.
struct GradientRow : StudentRow {
  float teacher = 0;
  float teacher_max = 0;
  bool is_reverse = false;
  float mean = 0;  // of (x - z) / T under the student, in the reverse divergence
};

// A row's sums for its loss, kept for its gradient.
struct TeacherRow {
  SoftmaxSum all;
  double mean = 0;
};

struct Scaled {
  std::vector<float> student;
  std::vector<float> teacher;
  std::vector<float> weights;
};

}  // namespace
}  // namespace zeroth::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void ScaleRow(const float* x, int64_t n, float factor, float* to) {
  Transform(
      static_cast<size_t>(n), to,
      [factor](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); }, x);
}

// Writes e^(x - max).
void ExpRow(const float* x, int64_t n, float max, float* to) {
  Transform(
      static_cast<size_t>(n), to,
      [max](auto d, auto v) HWY_ATTR { return Exp(d, hn::Sub(v, hn::Set(d, max))); }, x);
}

// `target` outside of [0, n) is in another part. `to` may be x.
void WriteGradientRow(const GradientRow& row, const float* x, const float* z, int64_t n,
                      int64_t target, DType dtype, void* to) {
  const auto gradient = [&row](auto d, auto v, auto of_teacher, auto less) HWY_ATTR {
    const auto inverse = hn::Set(d, row.inverse_temperature);
    const auto scaled = hn::Mul(v, inverse);
    const auto scaled_teacher = hn::Mul(of_teacher, inverse);
    auto g = hn::Mul(hn::Set(d, row.soft), Exp(d, hn::Sub(scaled, hn::Set(d, row.soft_max))));
    if (row.is_reverse) {
      g = hn::Mul(g, hn::Sub(hn::Sub(scaled, scaled_teacher), hn::Set(d, row.mean)));
    } else {
      const auto p = Exp(d, hn::Sub(scaled_teacher, hn::Set(d, row.teacher_max)));
      g = hn::NegMulAdd(hn::Set(d, row.teacher), p, g);
    }
    if (row.hard != 0) {
      g = hn::MulAdd(hn::Set(d, row.hard), Exp(d, hn::Sub(v, hn::Set(d, row.hard_max))), g);
    }
    g = hn::Sub(g, less);
    return row.cap > 0 ? hn::Mul(g, SoftCapSlope(d, v, row.cap)) : g;
  };
  const bool has_target = target >= 0 && target < n;
  auto at_target = static_cast<float>(row.of_target);
  if (has_target) {  // before `to`, which may be x, is written
    Transform(size_t{1}, &at_target, gradient, x + target, z + target,
              static_cast<const float*>(&at_target));
  }
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    T* const out = static_cast<T*>(to);
    Transform(
        static_cast<size_t>(n), out,
        [&](auto d, auto v, auto of_teacher)
            HWY_ATTR { return gradient(d, v, of_teacher, hn::Zero(d)); },
        x, z);
    if (has_target) Convert(size_t{1}, out + target, static_cast<const float*>(&at_target));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(ScaleRow);
HWY_EXPORT(ExpRow);
HWY_EXPORT(WriteGradientRow);

absl::Status DivergenceStatistics(const DivergenceStatisticsCall& call, CpuKernels&) {
  const float inverse = 1.0f / call.options.temperature;
  const bool is_reverse = call.options.divergence == Divergence::kReverse;
  return StudentStatistics<kDivergenceStatistics, Scaled>(
      call, [&](int64_t row, float* out, Scaled& scaled) {
        const auto count = static_cast<size_t>(call.count);
        for (auto* values : {&scaled.student, &scaled.teacher, &scaled.weights}) {
          values->resize(count);
        }
        const int64_t at = row * call.columns + call.begin;
        HWY_DYNAMIC_DISPATCH(ScaleRow)
        (call.logits + at, call.count, inverse, scaled.student.data());
        HWY_DYNAMIC_DISPATCH(ScaleRow)
        (call.teacher + at, call.count, inverse, scaled.teacher.data());
        SoftmaxPart(scaled.student.data(), call.count, out[3], out[4]);
        SoftmaxPart(scaled.teacher.data(), call.count, out[5], out[6]);
        const std::vector<float>& first = is_reverse ? scaled.student : scaled.teacher;
        const std::vector<float>& second = is_reverse ? scaled.teacher : scaled.student;
        HWY_DYNAMIC_DISPATCH(ExpRow)
        (first.data(), call.count, is_reverse ? out[3] : out[5], scaled.weights.data());
        double sum = 0;
        for (size_t i = 0; i < count; ++i) {
          sum += static_cast<double>(scaled.weights[i]) *
                 (static_cast<double>(first[i]) - static_cast<double>(second[i]));
        }
        out[7] = static_cast<float>(sum);
      });
}
const OnCpu<DivergenceStatistics> divergence_statistics;

// Returns the mean of the difference in statistic 7 under the distribution `all`, whose maximum in
// a part is statistic `at`.
double MeanDifference(const DivergenceGradientCall& call, int64_t row, int64_t at,
                      const SoftmaxSum& all) {
  double sum = 0;
  for (int64_t part = 0; part < call.parts; ++part) {
    const float* const of_part = StatisticsOf<kDivergenceStatistics>(call, part, row);
    const double below = static_cast<double>(of_part[at]) - static_cast<double>(all.max);
    sum += std::exp(below) * static_cast<double>(of_part[7]);
  }
  return sum / all.sum;
}

absl::Status DivergenceGradient(const DivergenceGradientCall& call, CpuKernels&) {
  const bool is_reverse = call.options.divergence == Divergence::kReverse;
  return StudentGradient<kDivergenceStatistics, TeacherRow>(
      call, call.options,
      [&](int64_t row, const SoftmaxSum& soft, TeacherRow& teacher) {
        teacher.all = Combine<kDivergenceStatistics>(call, row, 5);
        teacher.mean = is_reverse ? MeanDifference(call, row, 3, soft)
                                  : MeanDifference(call, row, 5, teacher.all);
        const double student_over_teacher = LogOf(soft) - LogOf(teacher.all);
        return teacher.mean + (is_reverse ? -student_over_teacher : student_over_teacher);
      },
      [&](int64_t row, const StudentRow& student, TeacherRow& teacher, void* to) {
        const GradientRow gradient{student,
                                   static_cast<float>(student.of_teacher / teacher.all.sum),
                                   teacher.all.max, is_reverse, static_cast<float>(teacher.mean)};
        const int64_t at = row * call.columns;
        HWY_DYNAMIC_DISPATCH(WriteGradientRow)
        (gradient, call.logits + at, call.teacher + at, call.columns - call.padding,
         call.targets[row], call.dtype, to);
      });
}
const OnCpu<DivergenceGradient> divergence_gradient;

}  // namespace
}  // namespace zeroth::cpu
#endif
