// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <memory>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/radix_sort.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth::cuda {
namespace {

// The warps of a block in kernels that use one warp for each token.
constexpr int kTokenWarps = 4;

// Returns the token of this warp; it may be beyond the last.
__device__ __forceinline__ int64_t TokenOfWarp() {
  return int64_t{blockIdx.x} * kTokenWarps + threadIdx.x / 32;
}

// The softmax of a token's logits.
template <typename T>
struct Softmax {
  // Computed by one thread.
  __device__ __forceinline__ Softmax(const T* row, int64_t experts) {
    max = -INFINITY;
    for (int64_t e = 0; e < experts; ++e) max = fmaxf(max, ToFloat(row[e]));
    float sum = 0.0f;
    for (int64_t e = 0; e < experts; ++e) sum = __fadd_rn(sum, expf(ToFloat(row[e]) - max));
    inverse = 1.0f / sum;
    log_sum = max + logf(sum);
  }
  // Computed by a warp, whose lanes add in the same order, so that the bits are the same.
  __device__ __forceinline__ Softmax(const T* row, int64_t experts, int lane) {
    max = -INFINITY;
    for (int64_t e = lane; e < experts; e += 32) max = fmaxf(max, ToFloat(row[e]));
    max = WarpMax(max);
    float sum = 0.0f;
    for (int64_t begin = 0; begin < experts; begin += 32) {
      const bool has_expert = begin + lane < experts;
      const float x = has_expert ? expf(ToFloat(row[begin + lane]) - max) : 0.0f;
#pragma unroll
      for (int i = 0; i < 32; ++i) sum = __fadd_rn(sum, __shfl_sync(kWholeWarp, x, i));
    }
    inverse = 1.0f / sum;
    log_sum = max + logf(sum);
  }
  __device__ __forceinline__ float Of(float logit) const { return expf(logit - max) * inverse; }

  float max;
  float inverse;  // of the sum of e^(logit - max)
  float log_sum;  // log of the sum of e^logit
};

// Computed in double and rounded once, so that CPUs and GPUs get the same order of experts.
__device__ __forceinline__ float Sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + exp(-static_cast<double>(x))));
}

// An expert, with the numbers that order a token's experts.
struct Ranked {
  float key = 0.0f;
  float logit = 0.0f;
  int32_t expert = -1;  // below 0: none
};

// Returns true if value a of expert i comes before value b of expert j. NaNs come last.
__device__ __forceinline__ bool Above(float a, int32_t i, float b, int32_t j) {
  if ((a != a) != (b != b)) return b != b;  // NaN differs from itself
  return a > b || (!(a < b) && i < j);
}

// Returns true if `a` comes before `b`: by keys, of equal keys by logits.
__device__ __forceinline__ bool Before(const Ranked& a, const Ranked& b) {
  const bool keys_differ = a.key > b.key || a.key < b.key || (a.key != a.key) != (b.key != b.key);
  return keys_differ ? Above(a.key, a.expert, b.key, b.expert)
                     : Above(a.logit, a.expert, b.logit, b.expert);
}

// The scores of a token's experts, and the weights that are made of them.
template <typename T>
class SoftmaxScores {
 public:
  using Element = T;
  static constexpr float kLeastSum = 0.0f;

  __device__ __forceinline__ SoftmaxScores(const RouteCall& call, const T* row, int lane)
      : row_(row), softmax_(row, call.experts, lane) {}
  __device__ __forceinline__ Ranked Rank(int32_t e) const {
    const float logit = ToFloat(row_[e]);
    return {logit, logit, e};
  }
  __device__ __forceinline__ float Of(float logit) const { return softmax_.Of(logit); }
  __device__ __forceinline__ static float Weight(float score, float total, RouteWeights how) {
    return score * ((how.normalize ? 1.0f / total : 1.0f) * how.scale);
  }

 private:
  const T* row_;
  Softmax<T> softmax_;
};

template <typename T>
class SigmoidScores {
 public:
  using Element = T;
  static constexpr float kLeastSum = kLeastScoreSum;

  __device__ __forceinline__ SigmoidScores(const RouteCall& call, const T* row, int)
      : row_(row), bias_(call.bias) {}
  __device__ __forceinline__ Ranked Rank(int32_t e) const {
    const float logit = ToFloat(row_[e]);
    return {bias_ == nullptr ? logit : __fadd_rn(Sigmoid(logit), bias_[e]), logit, e};
  }
  __device__ __forceinline__ static float Of(float logit) { return Sigmoid(logit); }
  __device__ __forceinline__ static float Weight(float score, float total, RouteWeights how) {
    return score / (how.normalize ? total : 1.0f) * how.scale;
  }

 private:
  const T* row_;
  const float* bias_;
};

// Returns the first expert that comes after `last`, or the first of all if that is none, to every
// lane.
template <typename Scores>
__device__ __forceinline__ Ranked NextExpert(const Scores& scores, int64_t experts,
                                             const Ranked& last, int lane) {
  Ranked best;
  for (int32_t e = lane; e < experts; e += 32) {
    const Ranked other = scores.Rank(e);
    if (last.expert >= 0 && !Before(last, other)) continue;
    if (best.expert < 0 || Before(other, best)) best = other;
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const Ranked other = {__shfl_xor_sync(kWholeWarp, best.key, mask),
                          __shfl_xor_sync(kWholeWarp, best.logit, mask),
                          __shfl_xor_sync(kWholeWarp, best.expert, mask)};
    if (other.expert >= 0 && (best.expert < 0 || Before(other, best))) best = other;
  }
  return best;
}

// Also numbers the pairs.
template <typename Scores>
__global__ void __launch_bounds__(kTokenWarps * 32) ChooseExperts(RouteCall call, int32_t* pairs) {
  const int64_t token = TokenOfWarp();
  if (token >= call.tokens) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  using T = typename Scores::Element;
  const Scores scores(call, static_cast<const T*>(call.logits) + token * call.experts, lane);
  const int64_t first = token * call.top_k;
  float* const weights = call.weights + first;
  Ranked last;
  float total = Scores::kLeastSum;
  for (int64_t k = 0; k < call.top_k; ++k) {
    last = NextExpert(scores, call.experts, last, lane);
    const float score = scores.Of(last.logit);
    total = __fadd_rn(total, score);
    if (lane != 0) continue;
    call.chosen[first + k] = last.expert;
    pairs[first + k] = static_cast<int32_t>(first + k);
    weights[k] = score;
  }
  __syncwarp();
  for (int64_t k = lane; k < call.top_k; k += 32) {
    weights[k] = Scores::Weight(weights[k], total, call.how);
  }
}

// Writes the row of each pair and the first row of each expert. `order` has the pairs sorted by
// their expert, and `experts` these experts.
__global__ void __launch_bounds__(kMapThreads)
    PlacePairs(RouteCall call, const int32_t* experts, const int32_t* order) {
  const int64_t pairs = call.tokens * call.top_k;
  for (const int64_t item : ItemsOfThread(pairs > call.experts ? pairs : call.experts + 1)) {
    if (item < pairs) call.rows[order[item]] = static_cast<int32_t>(item);
    if (item > call.experts) continue;
    int64_t first = 0;
    int64_t end = pairs;
    while (first < end) {
      const int64_t middle = (first + end) / 2;
      if (experts[middle] < item) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    call.offsets[item] = static_cast<int32_t>(first);
  }
}

absl::Status Route(const RouteCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const int64_t count = call.tokens * call.top_k;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> memory,
                          kernels.Scratch(3 * static_cast<size_t>(count) * sizeof(int32_t)));
  auto* const pairs = static_cast<int32_t*>(memory->data());
  int32_t* const sorted_experts = pairs + count;
  int32_t* const order = sorted_experts + count;
  if (count > 0) {
    const LaunchShape by_token = WarpPerRowShape(call.tokens, kTokenWarps);
    ZEROTH_RETURN_IF_ERROR(DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
      return call.how.scores == ExpertScores::kSigmoid
                 ? ZEROTH_LAUNCH(ChooseExperts<SigmoidScores<T>>, by_token, target.stream, call,
                                 pairs)
                 : ZEROTH_LAUNCH(ChooseExperts<SoftmaxScores<T>>, by_token, target.stream, call,
                                 pairs);
    }));
    ZEROTH_RETURN_IF_ERROR(
        SortByKey(count, call.experts, call.chosen, pairs, sorted_experts, order, kernels));
  }
  return ZEROTH_MAP(PlacePairs, std::max(count, call.experts + 1), target, call, sorted_experts,
                    order);
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
      const float p = softmax.Of(ToFloat(row[chosen[k]]));
      total = __fadd_rn(total, p);
      mean = __fmaf_rn(p, dweights[k], mean);
    }
    const float inverse = call.how.normalize ? 1.0f / total : 1.0f;
    if (call.how.normalize) mean *= inverse;
    for (int64_t e = 0; e < call.experts; ++e) {
      // Normalised weights are a softmax over the chosen experts alone, which the others do not
      // affect.
      const float p = call.how.normalize ? 0.0f : softmax.Of(ToFloat(row[e]));
      drow[e] = FromFloat<T>(-p * mean * call.how.scale);
    }
    for (int64_t k = 0; k < call.top_k; ++k) {
      const float p = softmax.Of(ToFloat(row[chosen[k]])) * inverse;
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
    for (int64_t e = 0; e < call.experts; ++e)
      drow[e] = FromFloat<T>(slope * softmax.Of(ToFloat(row[e])));
  }
}

absl::Status RouterZLoss(const RouterZLossCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(ZLossOfTokens<T>, call.tokens, kernels.target(), call);
  });
}
const OnCuda<RouterZLoss> router_z_loss;

// Each expert of each sequence has a warp, which walks over the pairs.
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

}  // namespace
}  // namespace zeroth::cuda
