// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/distillation/student_rows_device.h"
#include "zeroth/kernels/vocabulary/row_parts_device.h"

namespace zeroth::cuda {
namespace {

// The teacher's distribution at a position: token j has the probability
// exp(log_probs[j] / T - largest) / sum.
struct TeacherSum {
  float largest = kBelowAll;
  float sum = 0.0f;
};

__device__ TeacherSum SumTeacher(const float* log_probs, int64_t k, float inverse, float* scratch) {
  TeacherSum all;
  for (int64_t j = threadIdx.x; j < k; j += kRowThreads) {
    all.largest = fmaxf(all.largest, log_probs[j] * inverse);
  }
  all.largest = BlockMax<kRowThreads>(all.largest, scratch);
  for (int64_t j = threadIdx.x; j < k; j += kRowThreads) {
    all.sum = __fadd_rn(all.sum, expf(log_probs[j] * inverse - all.largest));
  }
  all.sum = BlockSum<kRowThreads>(all.sum, scratch);
  return all;
}

// A block processes a row.
__global__ void __launch_bounds__(kRowThreads) StatisticsKernel(DistillStatisticsCall call) {
  ZEROTH_SHARED(float, scratch, [kRowThreads / 32]);
  const TeacherCall& teacher = call.teacher;
  const int64_t row = blockIdx.x;
  if (ClearIfIgnored<kDistillStatistics>(call)) return;
  const float inverse = 1.0f / teacher.options.temperature;
  const float* const x = call.logits + row * call.columns + call.begin;
  float largest = kBelowAll;
  for (int64_t i = threadIdx.x; i < call.count; i += kRowThreads) largest = fmaxf(largest, x[i]);
  largest = BlockMax<kRowThreads>(largest, scratch);
  const float scaled_largest = call.count > 0 ? largest * inverse : kBelowAll;
  float hard = 0.0f;
  float soft = 0.0f;
  for (int64_t i = threadIdx.x; i < call.count; i += kRowThreads) {
    hard = __fadd_rn(hard, expf(x[i] - largest));
    soft = __fadd_rn(soft, expf(x[i] * inverse - scaled_largest));
  }
  hard = BlockSum<kRowThreads>(hard, scratch);
  soft = BlockSum<kRowThreads>(soft, scratch);
  const float* const log_probs = teacher.log_probs + row * teacher.k;
  const TeacherSum all = SumTeacher(log_probs, teacher.k, inverse, scratch);
  float agreed = 0.0f;
  for (int64_t j = threadIdx.x; j < teacher.k; j += kRowThreads) {
    const int64_t column = teacher.ids[row * teacher.k + j] - teacher.first - call.begin;
    if (column < 0 || column >= call.count) continue;
    const float p = expf(log_probs[j] * inverse - all.largest) / all.sum;
    agreed = __fmaf_rn(p, x[column] * inverse, agreed);
  }
  agreed = BlockSum<kRowThreads>(agreed, scratch);
  if (threadIdx.x != 0) return;
  const int64_t target = call.targets[row] - call.begin;
  float* const out = call.statistics + row * kDistillStatistics;
  out[0] = largest;
  out[1] = hard;
  out[2] = target >= 0 && target < call.count ? x[target] : 0.0f;
  out[3] = scaled_largest;
  out[4] = soft;
  out[5] = agreed;
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads) GradientKernel(DistillGradientCall call) {
  ZEROTH_SHARED(float, scratch, [kRowThreads / 32]);
  ZEROTH_SHARED(float, teacher_logits, [kMostTeacherTokens]);
  const TeacherCall& teacher = call.teacher;
  const int64_t row = blockIdx.x;
  if (ClearIfIgnored<T>(call)) return;
  const float temperature = teacher.options.temperature;
  const float inverse = 1.0f / temperature;
  const float* const log_probs = teacher.log_probs + row * teacher.k;
  const int32_t* const ids = teacher.ids + row * teacher.k;
  const TeacherSum known = SumTeacher(log_probs, teacher.k, inverse, scratch);
  const WholeSum hard = Combine<kDistillStatistics>(call, 0);
  const WholeSum soft = Combine<kDistillStatistics>(call, 3);
  float entropy = 0.0f;
  for (int64_t j = threadIdx.x; j < teacher.k; j += kRowThreads) {
    const float below = log_probs[j] * inverse - known.largest;
    const float p = expf(below) / known.sum;
    if (p > 0.0f) entropy = __fmaf_rn(p, below - logf(known.sum), entropy);
  }
  entropy = BlockSum<kRowThreads>(entropy, scratch);
  if (threadIdx.x == 0) {
    const float kl =
        entropy - (SumOfParts<kDistillStatistics>(call, 5) - soft.max) + logf(soft.sum);
    WriteLoss<kDistillStatistics>(call, teacher.options, hard, kl);
  }
  if (call.dlogits == nullptr) return;
  const int32_t target = call.targets[row];
  T* const out = static_cast<T*>(call.dlogits) + row * call.columns;
  const float alpha = teacher.options.alpha;
  const float factor = GradientFactor(call);
  const float of_teacher = factor * alpha * temperature;
  const float of_target = factor * (1.0f - alpha);
  const int64_t tokens = call.columns - call.padding;
  const float* const x = call.logits + row * call.columns;
  const auto column_of = [&](int64_t j) { return int64_t{ids[j]} - teacher.first; };
  // The gradient of a logit, less `by`.
  const auto gradient = [&](float logit, float by) {
    float g = expf(logit * inverse - soft.max) * (of_teacher / soft.sum);
    if (of_target != 0.0f) g = __fmaf_rn(expf(logit - hard.max), of_target / hard.sum, g);
    return BeforeCap(call, logit, g - by);
  };
  // The logits of the teacher's tokens are kept, because `out` may be x.
  for (int64_t j = threadIdx.x; j < teacher.k; j += kRowThreads) {
    const int64_t column = column_of(j);
    teacher_logits[j] = column >= 0 && column < tokens ? x[column] : 0.0f;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < call.columns; i += kRowThreads) {
    out[i] = FromFloat<T>(i < tokens ? gradient(x[i], i == target ? of_target : 0.0f) : 0.0f);
  }
  __syncthreads();
  for (int64_t j = threadIdx.x; j < teacher.k; j += kRowThreads) {
    const int64_t column = column_of(j);
    if (column < 0 || column >= tokens) continue;
    const float p = expf(log_probs[j] * inverse - known.largest) / known.sum;
    const float hot = column == target ? of_target : 0.0f;
    out[column] = FromFloat<T>(gradient(teacher_logits[j], __fmaf_rn(of_teacher, p, hot)));
  }
}

absl::Status DistillStatistics(const DistillStatisticsCall& call, CudaKernels& kernels) {
  return ZEROTH_LAUNCH(StatisticsKernel, Blocks(call.rows, kRowThreads), kernels.target().stream,
                       call);
}
const OnCuda<DistillStatistics> distill_statistics;

absl::Status DistillGradient(const DistillGradientCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH(GradientKernel<T>, Blocks(call.rows, kRowThreads), kernels.target().stream,
                         call);
  });
}
const OnCuda<DistillGradient> distill_gradient;

}  // namespace
}  // namespace zeroth::cuda
