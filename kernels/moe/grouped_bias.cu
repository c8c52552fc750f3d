// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth::cuda {
namespace {

constexpr size_t kMostExperts = 128;  // of a launch, limited by the addresses in its parameters
constexpr int kColumnThreads = 32;
constexpr int kRowThreads = 8;

struct GroupedBiasParams {
  int64_t n, stride;
  const int32_t* offsets;  // of the launch's first expert
  const void* dy;
  void* dbias[kMostExperts];
  bool accumulate[kMostExperts];
};
static_assert(sizeof(GroupedBiasParams) <= kKernelParameterBytes);

// A block sums 32 columns of an expert's rows. Each of its eight warps adds every eighth row.
template <typename T, typename G>
__global__ void __launch_bounds__(kColumnThreads* kRowThreads) SumExpertRows(GroupedBiasParams p) {
  ZEROTH_SHARED(float, shared, [kRowThreads * kColumnThreads]);
  const int expert = static_cast<int>(blockIdx.x);
  const int64_t column = int64_t{blockIdx.y} * kColumnThreads + threadIdx.x;
  float sum = 0.0f;
  if (column < p.n) {
    const T* const dy = static_cast<const T*>(p.dy) + column;
    const int64_t end = p.offsets[expert + 1];
    // 8 loads in flight hide the latency.
#pragma unroll 8
    for (int64_t row = p.offsets[expert] + threadIdx.y; row < end; row += kRowThreads) {
      sum = __fadd_rn(sum, ToFloat(dy[row * p.stride]));
    }
  }
  shared[threadIdx.y * kColumnThreads + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= p.n) return;
#pragma unroll
  for (int i = 1; i < kRowThreads; ++i) {
    sum = __fadd_rn(sum, shared[i * kColumnThreads + threadIdx.x]);
  }
  G* const to = static_cast<G*>(p.dbias[expert]) + column;
  *to = FromFloat<G>(p.accumulate[expert] ? __fadd_rn(ToFloat(*to), sum) : sum);
}

absl::Status GroupedBiasGradient(const GroupedBiasGradientCall& call, CudaKernels& kernels) {
  if (call.n == 0) return absl::OkStatus();
  for (size_t first = 0; first < call.outputs.size(); first += kMostExperts) {
    const size_t experts = std::min(kMostExperts, call.outputs.size() - first);
    GroupedBiasParams p = {};
    p.n = call.n;
    p.stride = call.stride;
    p.offsets = call.offsets + first;
    p.dy = call.dy;
    for (size_t e = 0; e < experts; ++e) {
      p.dbias[e] = call.outputs[first + e].dbias;
      p.accumulate[e] = call.outputs[first + e].accumulate;
    }
    const LaunchShape shape = {
        dim3(static_cast<unsigned>(experts),
             static_cast<unsigned>((call.n + kColumnThreads - 1) / kColumnThreads)),
        dim3(kColumnThreads, kRowThreads)};
    ZEROTH_RETURN_IF_ERROR(DispatchPair(
        call.dtype, call.grad_dtype, [&]<typename T, typename G>(TypeTag<T>, TypeTag<G>) {
          return ZEROTH_LAUNCH((SumExpertRows<T, G>), shape, kernels.target().stream, p);
        }));
  }
  return absl::OkStatus();
}
const OnCuda<GroupedBiasGradient> grouped_bias_gradient;

}  // namespace
}  // namespace zeroth::cuda
