// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/distillation/student_rows_device.h"
#include "zeroth/kernels/divergence/divergence.h"
#include "zeroth/kernels/vocabulary/row_parts_device.h"

namespace zeroth::cuda {
namespace {

// A block processes a row.
__global__ void __launch_bounds__(kRowThreads) StatisticsKernel(DivergenceStatisticsCall call) {
  ZEROTH_SHARED(float, scratch, [kRowThreads / 32]);
  const int64_t row = blockIdx.x;
  if (ClearIfIgnored<kDivergenceStatistics>(call)) return;
  const bool is_reverse = call.options.divergence == Divergence::kReverse;
  const float inverse = 1.0f / call.options.temperature;
  const int64_t at = row * call.columns + call.begin;
  const float* const x = call.logits + at;
  const float* const z = call.teacher + at;
  float largest = kBelowAll;
  float teacher_largest = kBelowAll;
  for (int64_t i = threadIdx.x; i < call.count; i += kRowThreads) {
    largest = fmaxf(largest, x[i]);
    teacher_largest = fmaxf(teacher_largest, z[i]);
  }
  largest = BlockMax<kRowThreads>(largest, scratch);
  teacher_largest = BlockMax<kRowThreads>(teacher_largest, scratch);
  const float scaled_largest = call.count > 0 ? largest * inverse : kBelowAll;
  teacher_largest = call.count > 0 ? teacher_largest * inverse : kBelowAll;
  float hard = 0.0f;
  float soft = 0.0f;
  float teacher = 0.0f;
  float weighted = 0.0f;
  for (int64_t i = threadIdx.x; i < call.count; i += kRowThreads) {
    const float of_student = expf(x[i] * inverse - scaled_largest);
    const float of_teacher = expf(z[i] * inverse - teacher_largest);
    hard = __fadd_rn(hard, expf(x[i] - largest));
    soft = __fadd_rn(soft, of_student);
    teacher = __fadd_rn(teacher, of_teacher);
    const float above = (z[i] - x[i]) * inverse;
    weighted = is_reverse ? __fmaf_rn(of_student, -above, weighted)
                          : __fmaf_rn(of_teacher, above, weighted);
  }
  hard = BlockSum<kRowThreads>(hard, scratch);
  soft = BlockSum<kRowThreads>(soft, scratch);
  teacher = BlockSum<kRowThreads>(teacher, scratch);
  weighted = BlockSum<kRowThreads>(weighted, scratch);
  if (threadIdx.x != 0) return;
  const int64_t target = call.targets[row] - call.begin;
  float* const out = call.statistics + row * kDivergenceStatistics;
  out[0] = largest;
  out[1] = hard;
  out[2] = target >= 0 && target < call.count ? x[target] : 0.0f;
  out[3] = scaled_largest;
  out[4] = soft;
  out[5] = teacher_largest;
  out[6] = teacher;
  out[7] = weighted;
}

// Returns the mean of statistic 7's d under the distribution `all`, whose maximum in a part is
// statistic `at`.
__device__ float MeanDifference(const DivergenceGradientCall& call, int at, const WholeSum& all) {
  float sum = 0.0f;
  for (int64_t part = 0; part < call.parts; ++part) {
    const float* const of_part = StatisticsOf<kDivergenceStatistics>(call, part);
    sum = __fmaf_rn(of_part[7], expf(of_part[at] - all.max), sum);
  }
  return sum / all.sum;
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads) GradientKernel(DivergenceGradientCall call) {
  const int64_t row = blockIdx.x;
  if (ClearIfIgnored<T>(call)) return;
  const bool is_reverse = call.options.divergence == Divergence::kReverse;
  const WholeSum hard = Combine<kDivergenceStatistics>(call, 0);
  const WholeSum soft = Combine<kDivergenceStatistics>(call, 3);
  const WholeSum teacher = Combine<kDivergenceStatistics>(call, 5);
  const float mean = is_reverse ? MeanDifference(call, 3, soft) : MeanDifference(call, 5, teacher);
  if (threadIdx.x == 0) {
    const float student_over_teacher = soft.max - teacher.max + logf(soft.sum / teacher.sum);
    const float kl = is_reverse ? mean - student_over_teacher : mean + student_over_teacher;
    WriteLoss<kDivergenceStatistics>(call, call.options, hard, kl);
  }
  if (call.dlogits == nullptr) return;
  const int32_t target = call.targets[row];
  const int64_t tokens = call.columns - call.padding;
  T* const out = static_cast<T*>(call.dlogits) + row * call.columns;
  const float temperature = call.options.temperature;
  const float inverse = 1.0f / temperature;
  const float factor = GradientFactor(call);
  const float of_teacher = factor * call.options.alpha * temperature;
  const float of_target = factor * (1.0f - call.options.alpha);
  const float* const x = call.logits + row * call.columns;
  const float* const z = call.teacher + row * call.columns;
  for (int64_t i = threadIdx.x; i < call.columns; i += kRowThreads) {
    const float logit = x[i];
    const float q = expf(logit * inverse - soft.max) / soft.sum;
    float g = 0.0f;
    if (is_reverse) {
      g = of_teacher * q * ((logit - z[i]) * inverse - mean);
    } else {
      g = of_teacher * (q - expf(z[i] * inverse - teacher.max) / teacher.sum);
    }
    if (of_target != 0.0f) g = __fmaf_rn(expf(logit - hard.max), of_target / hard.sum, g);
    if (i == target) g -= of_target;
    out[i] = FromFloat<T>(i < tokens ? BeforeCap(call, logit, g) : 0.0f);
  }
}

absl::Status DivergenceStatistics(const DivergenceStatisticsCall& call, CudaKernels& kernels) {
  return ZEROTH_LAUNCH(StatisticsKernel, Blocks(call.rows, kRowThreads), kernels.target().stream,
                       call);
}
const OnCuda<DivergenceStatistics> divergence_statistics;

absl::Status DivergenceGradient(const DivergenceGradientCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH(GradientKernel<T>, Blocks(call.rows, kRowThreads), kernels.target().stream,
                         call);
  });
}
const OnCuda<DivergenceGradient> divergence_gradient;

}  // namespace
}  // namespace zeroth::cuda
