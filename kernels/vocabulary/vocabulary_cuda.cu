// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/data_error_report.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/vocabulary/row_parts_device.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth::cuda {
namespace {

__global__ void __launch_bounds__(kMapThreads)
    LocalIdsKernel(LocalIdsCall call, DataErrorWord* error) {
  const int64_t place = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (place >= call.places) return;
  const int32_t id = call.ids[place];
  if (id == kIgnoredTarget && call.counted != nullptr) {
    call.local[place] = kIgnoredTarget;
    return;
  }
  const int64_t local = id - call.first;
  const bool is_here = local >= 0 && local < call.count;
  call.local[place] = static_cast<int32_t>(is_here ? local : call.count);
  if (id < 0 || id >= call.vocab) {
    const auto code = call.counted != nullptr ? DataErrorCode::kTarget : DataErrorCode::kToken;
    ReportDataError(error, code, id, place, 1, call.vocab);
  }
}

// One block counts the ids that are in the vocabulary.
__global__ void __launch_bounds__(kRowThreads) CountKernel(LocalIdsCall call) {
  ZEROTH_SHARED(int32_t, counts, [kRowThreads]);
  int32_t count = 0;
  for (int64_t place = threadIdx.x; place < call.places; place += kRowThreads) {
    count += call.ids[place] >= 0 && call.ids[place] < call.vocab ? 1 : 0;
  }
  counts[threadIdx.x] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kRowThreads; ++i) count += counts[i];
  *call.counted = static_cast<float>(count);
}

// A block processes a row.
__global__ void __launch_bounds__(kRowThreads) StatisticsKernel(SoftmaxStatisticsCall call) {
  ZEROTH_SHARED(float, scratch, [kRowThreads / 32]);
  const int64_t row = blockIdx.x;
  const float* const x = call.logits + row * call.columns + call.begin;
  float largest = kBelowAll;
  for (int64_t i = threadIdx.x; i < call.count; i += kRowThreads) largest = fmaxf(largest, x[i]);
  largest = BlockMax<kRowThreads>(largest, scratch);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < call.count; i += kRowThreads) {
    sum = __fadd_rn(sum, expf(x[i] - largest));
  }
  sum = BlockSum<kRowThreads>(sum, scratch);
  if (threadIdx.x != 0) return;
  float* const out = call.statistics + row * kSoftmaxStatistics;
  const int64_t target = call.targets[row] - call.begin;
  out[0] = largest;
  out[1] = sum;
  out[2] = target >= 0 && target < call.count ? x[target] : 0.0f;
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads) GradientKernel(SoftmaxGradientCall call) {
  const int64_t row = blockIdx.x;
  const int32_t target = call.targets[row];
  const bool counts = target != kIgnoredTarget;
  const WholeSum all = Combine<kSoftmaxStatistics>(call, 0);
  // One part has the target's logit, the others have 0.
  const float at_target = SumOfParts<kSoftmaxStatistics>(call, 2);
  if (threadIdx.x == 0) {
    call.losses[row] = counts ? logf(all.sum) - (at_target - all.max) : 0.0f;
  }
  if (call.dlogits == nullptr) return;
  float factor = GradientFactor(call);
  if (call.row_weights != nullptr) factor *= call.row_weights[row];
  const float scale = factor / all.sum;
  const float* const x = call.logits + row * call.columns;
  T* const out = static_cast<T*>(call.dlogits) + row * call.columns;
  const int64_t tokens = counts ? call.columns - call.padding : 0;
  for (int64_t i = threadIdx.x; i < call.columns; i += kRowThreads) {
    const float hot = i == target ? factor : 0.0f;
    const float gradient = i < tokens ? expf(x[i] - all.max) * scale - hot : 0.0f;
    out[i] = FromFloat<T>(BeforeCap(call, x[i], gradient));
  }
}

__global__ void __launch_bounds__(kRowThreads) MeanKernel(MeanLossCall call) {
  ZEROTH_SHARED(double, sums, [kRowThreads]);
  double sum = 0.0;
  for (int64_t row = threadIdx.x; row < call.rows; row += kRowThreads) {
    sum += static_cast<double>(call.losses[row]);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kRowThreads; ++i) sum += sums[i];
  const auto divisor = static_cast<double>(*call.divisor);
  *call.loss = divisor == 0.0 ? 0.0f : static_cast<float>(sum / divisor);
}

absl::Status LocalIds(const LocalIdsCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  if (call.counted != nullptr) {
    ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(CountKernel, Blocks(1, kRowThreads), target.stream, call));
  }
  return ZEROTH_LAUNCH(LocalIdsKernel, ThreadPerItemShape(call.places), target.stream, call,
                       kernels.data_error());
}
const OnCuda<LocalIds> local_ids;

absl::Status SoftmaxStatistics(const SoftmaxStatisticsCall& call, CudaKernels& kernels) {
  return ZEROTH_LAUNCH(StatisticsKernel, Blocks(call.rows, kRowThreads), kernels.target().stream,
                       call);
}
const OnCuda<SoftmaxStatistics> softmax_statistics;

absl::Status SoftmaxGradient(const SoftmaxGradientCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH(GradientKernel<T>, Blocks(call.rows, kRowThreads), kernels.target().stream,
                         call);
  });
}
const OnCuda<SoftmaxGradient> softmax_gradient;

absl::Status MeanLoss(const MeanLossCall& call, CudaKernels& kernels) {
  return ZEROTH_LAUNCH(MeanKernel, Blocks(1, kRowThreads), kernels.target().stream, call);
}
const OnCuda<MeanLoss> mean_loss;

const KernelTable<PlanDividedLossCall>::Registration plan_divided_loss(
    "cuda", [](Kernels&, const PlanDividedLossCall& call, CallTensors) {
      *call.plan = PlanDividedLossOnGpu(call);
      return absl::OkStatus();
    });

}  // namespace
}  // namespace zeroth::cuda
