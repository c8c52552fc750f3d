// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth::cuda {
namespace {

// The softmax of a token's logits. One thread computes it, since there are far fewer experts than
// tokens.
template <typename T>
struct Softmax {
  __device__ __forceinline__ Softmax(const T* row, int64_t experts) {
    max = -INFINITY;
    for (int64_t e = 0; e < experts; ++e) max = fmaxf(max, ToFloat(row[e]));
    float sum = 0.0f;
    for (int64_t e = 0; e < experts; ++e) sum = __fadd_rn(sum, expf(ToFloat(row[e]) - max));
    inverse = 1.0f / sum;
    log_sum = max + logf(sum);
  }
  __device__ __forceinline__ float Of(T logit) const {
    return expf(ToFloat(logit) - max) * inverse;
  }

  float max;
  float inverse;  // of the sum of e^(logit - max)
  float log_sum;  // log of the sum of e^logit
};

// Returns true if logit a of expert i comes before logit b of expert j. NaNs come last.
__device__ __forceinline__ bool Above(float a, int64_t i, float b, int64_t j) {
  if ((a != a) != (b != b)) return b != b;  // NaN differs from itself
  return a > b || (!(a < b) && i < j);
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads) ChooseExperts(RouteCall call) {
  for (const int64_t token : ItemsOfThread(call.tokens)) {
    const T* const row = static_cast<const T*>(call.logits) + token * call.experts;
    const Softmax<T> softmax(row, call.experts);
    int64_t last = -1;
    float total = 0.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      // Finds the first expert that comes after the previous one.
      int64_t best = -1;
      for (int64_t e = 0; e < call.experts; ++e) {
        const float logit = ToFloat(row[e]);
        if (last >= 0 && !Above(ToFloat(row[last]), last, logit, e)) continue;
        if (best < 0 || Above(logit, e, ToFloat(row[best]), best)) best = e;
      }
      last = best;
      const float p = softmax.Of(row[best]);
      call.chosen[token * call.top_k + k] = static_cast<int32_t>(best);
      call.weights[token * call.top_k + k] = p;
      total = __fadd_rn(total, p);
    }
    const float inverse = call.how.normalize ? 1.0f / total : 1.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      call.weights[token * call.top_k + k] *= inverse * call.how.scale;
    }
  }
}

// Computed in double and rounded once, so that CPUs and GPUs get the same order of experts.
__device__ __forceinline__ float Sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + exp(-static_cast<double>(x))));
}

// Returns true if expert i comes before expert j, by their keys a and b, and of equal keys by their
// logits.
__device__ __forceinline__ bool KeyAbove(float a, float logit_a, int64_t i, float b, float logit_b,
                                         int64_t j) {
  if (a > b || a < b || (a != a) != (b != b)) return Above(a, i, b, j);
  return Above(logit_a, i, logit_b, j);
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads) ChooseBySigmoid(RouteCall call) {
  for (const int64_t token : ItemsOfThread(call.tokens)) {
    const T* const row = static_cast<const T*>(call.logits) + token * call.experts;
    const auto key_of = [&](int64_t e) {
      const float logit = ToFloat(row[e]);
      return call.bias == nullptr ? logit : __fadd_rn(Sigmoid(logit), call.bias[e]);
    };
    int64_t last = -1;
    float last_key = 0.0f;
    float total = kLeastScoreSum;
    for (int64_t k = 0; k < call.top_k; ++k) {
      // Finds the first expert that comes after the previous one.
      int64_t best = -1;
      float best_key = 0.0f;
      for (int64_t e = 0; e < call.experts; ++e) {
        const float key = key_of(e);
        const float logit = ToFloat(row[e]);
        if (last >= 0 && !KeyAbove(last_key, ToFloat(row[last]), last, key, logit, e)) continue;
        if (best < 0 || KeyAbove(key, logit, e, best_key, ToFloat(row[best]), best)) {
          best = e;
          best_key = key;
        }
      }
      last = best;
      last_key = best_key;
      const float score = Sigmoid(ToFloat(row[best]));
      call.chosen[token * call.top_k + k] = static_cast<int32_t>(best);
      call.weights[token * call.top_k + k] = score;
      total = __fadd_rn(total, score);
    }
    const float divisor = call.how.normalize ? total : 1.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      float& weight = call.weights[token * call.top_k + k];
      weight = weight / divisor * call.how.scale;
    }
  }
}

// Each expert has a warp, which loops over all pairs in order. The first time it counts the
// expert's pairs to offsets[expert + 1]. The second time, when offsets are sums, it numbers them.
template <bool kAssign>
__global__ void __launch_bounds__(32) GroupPairs(RouteCall call) {
  const auto expert = static_cast<int32_t>(blockIdx.x);
  const auto lane = static_cast<int64_t>(threadIdx.x);
  const int64_t pairs = call.tokens * call.top_k;
  int32_t row = kAssign ? call.offsets[expert] : 0;
  for (int64_t begin = 0; begin < pairs; begin += 32) {
    const int64_t pair = begin + lane;
    const bool mine = pair < pairs && call.chosen[pair] == expert;
    const unsigned all = __ballot_sync(kWholeWarp, mine ? 1 : 0);
    if (kAssign && mine) call.rows[pair] = row + __popc(all & ((1u << lane) - 1u));
    row += __popc(all);
  }
  if (!kAssign && lane == 0) call.offsets[expert + 1] = row;
}

__global__ void __launch_bounds__(32) SumOffsets(RouteCall call) {
  if (threadIdx.x != 0) return;
  int32_t sum = 0;
  call.offsets[0] = 0;
  for (int64_t e = 0; e < call.experts; ++e) call.offsets[e + 1] = sum += call.offsets[e + 1];
}

absl::Status Route(const RouteCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const LaunchShape by_expert = Blocks(call.experts, 32);
  ZEROTH_RETURN_IF_ERROR(DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return call.how.scores == ExpertScores::kSigmoid
               ? ZEROTH_MAP(ChooseBySigmoid<T>, call.tokens, target, call)
               : ZEROTH_MAP(ChooseExperts<T>, call.tokens, target, call);
  }));
  ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH((GroupPairs<false>), by_expert, target.stream, call));
  ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(SumOffsets, Blocks(1, 32), target.stream, call));
  return ZEROTH_LAUNCH((GroupPairs<true>), by_expert, target.stream, call);
}
const OnCuda<Route> route;

template <typename T>
__global__ void __launch_bounds__(kMapThreads) RouteGradient(RouteBackwardCall call) {
  for (const int64_t token : ItemsOfThread(call.tokens)) {
    const T* const row = static_cast<const T*>(call.logits) + token * call.experts;
    T* const drow = static_cast<T*>(call.dlogits) + token * call.experts;
    const int32_t* const chosen = call.chosen + token * call.top_k;
    const float* const dweights = call.dweights + token * call.top_k;
    const Softmax<T> softmax(row, call.experts);
    float total = 0.0f;
    float mean = 0.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      const float p = softmax.Of(row[chosen[k]]);
      total = __fadd_rn(total, p);
      mean = __fmaf_rn(p, dweights[k], mean);
    }
    const float inverse = call.how.normalize ? 1.0f / total : 1.0f;
    if (call.how.normalize) mean *= inverse;
    for (int64_t e = 0; e < call.experts; ++e) {
      // Normalised weights are a softmax over the chosen experts alone, which the others do not
      // affect.
      const float p = call.how.normalize ? 0.0f : softmax.Of(row[e]);
      drow[e] = FromFloat<T>(-p * mean * call.how.scale);
    }
    for (int64_t k = 0; k < call.top_k; ++k) {
      const float p = softmax.Of(row[chosen[k]]) * inverse;
      drow[chosen[k]] = FromFloat<T>(p * (dweights[k] - mean) * call.how.scale);
    }
  }
}

// The scores of experts are independent of each other, so that only the chosen have a gradient.
template <typename T>
__global__ void __launch_bounds__(kMapThreads) SigmoidRouteGradient(RouteBackwardCall call) {
  for (const int64_t token : ItemsOfThread(call.tokens)) {
    const T* const row = static_cast<const T*>(call.logits) + token * call.experts;
    T* const drow = static_cast<T*>(call.dlogits) + token * call.experts;
    const int32_t* const chosen = call.chosen + token * call.top_k;
    const float* const dweights = call.dweights + token * call.top_k;
    float total = kLeastScoreSum;
    float mean = 0.0f;
    for (int64_t k = 0; k < call.top_k; ++k) {
      const float score = Sigmoid(ToFloat(row[chosen[k]]));
      total = __fadd_rn(total, score);
      mean = __fmaf_rn(score, dweights[k], mean);
    }
    const float divisor = call.how.normalize ? total : 1.0f;
    mean = call.how.normalize ? mean / divisor : 0.0f;
    for (int64_t e = 0; e < call.experts; ++e) drow[e] = FromFloat<T>(0.0f);
    for (int64_t k = 0; k < call.top_k; ++k) {
      const float logit = ToFloat(row[chosen[k]]);
      const float slope = Sigmoid(logit) * Sigmoid(-logit) / divisor * call.how.scale;
      drow[chosen[k]] = FromFloat<T>(slope * (dweights[k] - mean));
    }
  }
}

absl::Status RouteBackward(const RouteBackwardCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return call.how.scores == ExpertScores::kSigmoid
               ? ZEROTH_MAP(SigmoidRouteGradient<T>, call.tokens, kernels.target(), call)
               : ZEROTH_MAP(RouteGradient<T>, call.tokens, kernels.target(), call);
  });
}
const OnCuda<RouteBackward> route_backward;

template <typename T>
__global__ void __launch_bounds__(kMapThreads) ZLossOfTokens(RouterZLossCall call) {
  for (const int64_t token : ItemsOfThread(call.tokens)) {
    const T* const row = static_cast<const T*>(call.logits) + token * call.experts;
    const Softmax<T> softmax(row, call.experts);
    const float z = softmax.log_sum;
    if (call.losses != nullptr) call.losses[token] = call.scale * z * z;
    if (call.dlogits == nullptr) continue;
    T* const drow = static_cast<T*>(call.dlogits) + token * call.experts;
    const float slope = 2.0f * call.scale * z;
    for (int64_t e = 0; e < call.experts; ++e) drow[e] = FromFloat<T>(slope * softmax.Of(row[e]));
  }
}

absl::Status RouterZLoss(const RouterZLossCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(ZLossOfTokens<T>, call.tokens, kernels.target(), call);
  });
}
const OnCuda<RouterZLoss> router_z_loss;

// Each expert of each sequence has a warp, which counts as GroupPairs does.
__global__ void __launch_bounds__(32) CountPairs(CountExpertsCall call) {
  const auto expert = static_cast<int32_t>(blockIdx.x);
  for (int64_t sequence = blockIdx.y; sequence < call.sequences; sequence += gridDim.y) {
    const int32_t* const chosen = call.chosen + sequence * call.pairs;
    int count = 0;
    for (int64_t begin = 0; begin < call.pairs; begin += 32) {
      const int64_t pair = begin + threadIdx.x;
      const bool mine = pair < call.pairs && chosen[pair] == expert;
      count += __popc(__ballot_sync(kWholeWarp, mine ? 1 : 0));
    }
    if (threadIdx.x == 0) {
      call.counts[sequence * call.experts + expert] = static_cast<float>(count) * call.scale;
    }
  }
}

absl::Status CountExperts(const CountExpertsCall& call, CudaKernels& kernels) {
  constexpr int64_t kMostRows = 65535;  // of a grid
  const dim3 grid(static_cast<unsigned>(call.experts),
                  static_cast<unsigned>(std::min(call.sequences, kMostRows)));
  return ZEROTH_LAUNCH(CountPairs, (LaunchShape{grid, dim3(32)}), kernels.target().stream, call);
}
const OnCuda<CountExperts> count_experts;

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    ScatterRows(ScatterCall call) {
  for (const int64_t item : ItemsOfThread(call.tokens * call.top_k * call.dim)) {
    const int64_t pair = item / call.dim;
    const int64_t column = item % call.dim;
    const float weight = call.weights == nullptr ? 1.0f : call.weights[pair];
    const float x =
        ToFloat(static_cast<const T*>(call.from)[pair / call.top_k * call.dim + column]);
    static_cast<T*>(call.grouped)[call.rows[pair] * call.dim + column] = FromFloat<T>(weight * x);
  }
}

absl::Status Scatter(const ScatterCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(ScatterRows<T>, call.tokens * call.top_k * call.dim, kernels.target(), call);
  });
}
const OnCuda<Scatter> scatter;

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    CombineRows(CombineCall call) {
  for (const int64_t item : ItemsOfThread(call.tokens * call.dim)) {
    const int64_t token = item / call.dim;
    const int64_t column = item % call.dim;
    T* const to = static_cast<T*>(call.to) + item;
    float sum = call.accumulate ? ToFloat(*to) : 0.0f;
    for (int64_t pair = token * call.top_k; pair < (token + 1) * call.top_k; ++pair) {
      const float weight = call.weights == nullptr ? 1.0f : call.weights[pair];
      const T* const row = static_cast<const T*>(call.grouped) + call.rows[pair] * call.dim;
      sum = __fmaf_rn(weight, ToFloat(row[column]), sum);
    }
    *to = FromFloat<T>(sum);
  }
}

absl::Status Combine(const CombineCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(CombineRows<T>, call.tokens * call.dim, kernels.target(), call);
  });
}
const OnCuda<Combine> combine;

constexpr int kDotWarps = 4;

template <typename T>
__global__ void __launch_bounds__(kDotWarps * 32) DotRows(RowDotsCall call) {
  const int64_t pair = int64_t{blockIdx.x} * kDotWarps + threadIdx.x / 32;
  if (pair >= call.tokens * call.top_k) return;
  const T* const token = static_cast<const T*>(call.from) + pair / call.top_k * call.dim;
  const T* const row = static_cast<const T*>(call.grouped) + call.rows[pair] * call.dim;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % 32; i < call.dim; i += 32) {
    sum = __fmaf_rn(ToFloat(token[i]), ToFloat(row[i]), sum);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) call.dweights[pair] = sum;
}

absl::Status RowDots(const RowDotsCall& call, CudaKernels& kernels) {
  const int64_t pairs = call.tokens * call.top_k;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH((DotRows<T>), WarpPerRowShape(pairs, kDotWarps), kernels.target().stream,
                         call);
  });
}
const OnCuda<RowDots> row_dots;

}  // namespace
}  // namespace zeroth::cuda
