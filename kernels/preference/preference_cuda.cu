// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/preference/pair_loss.h"
#include "zeroth/kernels/preference/preference.h"

namespace zeroth::cuda {
namespace {

constexpr int kPairThreads = 128;
constexpr int kStatistics = static_cast<int>(PreferenceStatistics::kCount);

// Returns to thread 0 the sum of all threads' values, in the order of threads.
__device__ __forceinline__ double OrderedSum(double value, double* scratch) {
  scratch[threadIdx.x] = value;
  __syncthreads();
  double sum = 0.0;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kPairThreads; ++i) sum += scratch[i];
  }
  __syncthreads();
  return sum;
}

__device__ __forceinline__ AnswerSums SumsOf(const PreferenceLossCall& call, int64_t begin,
                                             int64_t end, double* scratch) {
  double losses = 0.0;
  double reference = 0.0;
  double targets = 0.0;
  for (int64_t row = begin + threadIdx.x; row < end; row += kPairThreads) {
    if (call.targets[row] == kIgnoredTarget) continue;
    losses += static_cast<double>(call.losses[row]);
    if (call.reference != nullptr) reference += static_cast<double>(call.reference[row]);
    targets += 1.0;
  }
  AnswerSums sums;
  sums.losses = OrderedSum(losses, scratch);
  sums.reference = OrderedSum(reference, scratch);
  sums.targets = static_cast<int64_t>(OrderedSum(targets, scratch));
  return sums;
}

// A block computes a pair: its statistics, and the weights of its rows.
__global__ void __launch_bounds__(kPairThreads)
    PairKernel(PreferenceLossCall call, double* statistics) {
  ZEROTH_SHARED(double, scratch, [kPairThreads]);
  ZEROTH_SHARED(float, weights, [2]);
  const int64_t pair = blockIdx.x;
  const int64_t begin = call.ranges[3 * pair];
  const int64_t middle = call.ranges[3 * pair + 1];
  const int64_t end = call.ranges[3 * pair + 2];
  double* const out = statistics + pair * kStatistics;
  if (begin == end) {
    if (threadIdx.x < kStatistics) out[threadIdx.x] = 0.0;
    return;
  }
  const AnswerSums chosen = SumsOf(call, begin, middle, scratch);
  const AnswerSums rejected = SumsOf(call, middle, end, scratch);
  if (threadIdx.x == 0) {
    const PairNumbers numbers = NumbersOf(call, pair, chosen, rejected, MeanKl(call.kl, call.kls));
    for (int i = 0; i < kStatistics; ++i) out[i] = numbers.sums[i];
    const auto divisor = static_cast<double>(*call.divisor);
    weights[0] = static_cast<float>(numbers.by_first / divisor);
    weights[1] = static_cast<float>(numbers.by_second / divisor);
  }
  __syncthreads();
  for (int64_t row = begin + threadIdx.x; row < end; row += kPairThreads) {
    if (call.targets[row] == kIgnoredTarget) continue;
    call.row_weights[row] = weights[row < middle ? 0 : 1];
  }
}

__global__ void __launch_bounds__(kPairThreads)
    PairMeans(PreferenceLossCall call, const double* statistics) {
  ZEROTH_SHARED(double, scratch, [kPairThreads]);
  for (int i = 0; i < kStatistics; ++i) {
    double sum = 0.0;
    for (int64_t pair = threadIdx.x; pair < call.pairs; pair += kPairThreads) {
      sum += statistics[pair * kStatistics + i];
    }
    sum = OrderedSum(sum, scratch);
    if (threadIdx.x == 0) {
      call.statistics[i] = static_cast<float>(sum / static_cast<double>(*call.divisor));
    }
  }
}

absl::Status PreferenceLoss(const PreferenceLossCall& call, CudaKernels& kernels) {
  const cudaStream_t stream = kernels.target().stream;
  const auto pairs = static_cast<size_t>(call.pairs);
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> memory,
                          kernels.Scratch((pairs + 1) * kStatistics * sizeof(double)));
  auto* const statistics = static_cast<double*>(memory->data());
  if (call.rows > 0) {
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
        call.row_weights, 0, static_cast<size_t>(call.rows) * sizeof(float), stream));
  }
  ZEROTH_RETURN_IF_ERROR(
      ZEROTH_LAUNCH(PairKernel, Blocks(call.pairs, kPairThreads), stream, call, statistics));
  return ZEROTH_LAUNCH(PairMeans, Blocks(1, kPairThreads), stream, call, statistics);
}
const OnCuda<PreferenceLoss> preference_loss;

}  // namespace
}  // namespace zeroth::cuda
