// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/async_copy.h"
#include "zeroth/kernels/cuda/data_error_report.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/linear_cross_entropy/softmax_loss.h"

namespace zeroth::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWidth = 4;  // fp32 logits in 16 bytes
// Threads of a block that keeps its row in shared memory. A row of at most kShortRowBytes is short.
constexpr int kLongRowThreads = 1024;
constexpr int kShortRowThreads = 256;
constexpr size_t kShortRowBytes = size_t{32} << 10;
constexpr size_t kStaticSharedBytes = kLongRowThreads / 32 * sizeof(float);

__device__ __forceinline__ bool Counts(int32_t target, int64_t vocab) {
  return target >= 0 && target < vocab;
}

__device__ __forceinline__ float Value(const LossDivisor& divisor) {
  if (divisor.given != nullptr) return *divisor.given;
  return divisor.is_one ? 1.0f : static_cast<float>(*divisor.counted);
}

// Returns the factor of a row's gradients.
__device__ __forceinline__ float RowScale(const LossDivisor& divisor, const float* weights,
                                          int64_t row, float grad_scale) {
  const float scale = grad_scale / Value(divisor);
  return weights == nullptr ? scale : scale * weights[row];
}

__global__ void __launch_bounds__(kMapThreads)
    CountKernel(int64_t rows, int64_t vocab, const int32_t* targets, int32_t* counted,
                DataErrorWord* error) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const int32_t target = targets[row];
  if (Counts(target, vocab)) {
    atomicAdd(counted, 1);
  } else if (target != kIgnoredTarget) {
    ReportDataError(error, DataErrorCode::kTarget, target, row, 1, vocab);
  }
}

// The maximum of no logits. It is finite, so that an exponential relative to it is not NaN.
constexpr float kBelowAll = -3.0e38f;

// Returns cap * tanh(x / cap).
__device__ __forceinline__ float SoftCap(float x, float cap) { return cap * tanhf(x / cap); }

// Loads logits [at, at + kWidth) of a row of `vocab`, and caps them if `kCaps`. Logits past the end
// read as -infinity, whose exponential is 0 whatever the maximum. The row's memory extends to a
// multiple of kWidth.
template <bool kCaps = false>
__device__ __forceinline__ void LoadLogits(const float* row, int at, int vocab,
                                           float (&value)[kWidth], float cap = 0.0f) {
  LoadPack<kWidth>(row + at, value);
  if constexpr (kCaps) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) value[i] = SoftCap(value[i], cap);
  }
  if (at + kWidth <= vocab) return;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) value[i] = at + i < vocab ? value[i] : -INFINITY;
}

// The softmax of a row: its maximum, and the sum of exponentials relative to that.
struct Softmax {
  float largest = kBelowAll;
  float sum = 0.0f;

  // Raises the maximum to `most`, which is not smaller. A sum relative to kBelowAll becomes zero.
  __device__ __forceinline__ void Raise(float most) {
    sum *= FastExp2((largest - most) * kLog2E);
    largest = most;
  }
  // Returns e^(logit - maximum) for a logit that is not larger. A precise exponential would take
  // more instructions than the kernel has time for.
  __device__ __forceinline__ float Exponential(float logit) const {
    return FastExp2((logit - largest) * kLog2E);
  }
  // Returns the loss of a row whose target has this logit. The difference of the two logits comes
  // first: it is exact where they are close, and maximum + log(sum) would be rounded to the
  // maximum's precision.
  __device__ __forceinline__ float Loss(float at_target) const {
    return logf(sum) - (at_target - largest);
  }
  __device__ __forceinline__ void Add(const float (&logits)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += Exponential(logits[i]);
  }
};

__device__ __forceinline__ float LargestOf(float largest, const float (&logits)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, logits[i]);
  return largest;
}

template <int kBlock>
__device__ __forceinline__ Softmax OverBlock(Softmax of_thread, float* scratch) {
  of_thread.Raise(BlockMax<kBlock>(of_thread.largest, scratch));
  of_thread.sum = BlockSum<kBlock>(of_thread.sum, scratch);
  return of_thread;
}

// The gradients of a row: (softmax - one_hot(target)) * scale, or zeros for a target that does not
// count. Such a row may hold any values, even infinities.
class Gradients {
 public:
  __device__ __forceinline__ Gradients(const Softmax& softmax, int vocab, int target, float scale)
      : softmax_(softmax),
        vocab_(vocab),
        target_(target),
        scale_(scale),
        scale_of_sum_(scale / softmax.sum),
        counts_(Counts(target, vocab)) {}

  // Replaces logits [at, at + kWidth), of which those from `vocab` on become zeros. If `kCaps`,
  // they are capped, and the gradients are those of the logits before the cap.
  template <bool kCaps = false>
  __device__ __forceinline__ void Replace(int at, float (&value)[kWidth], float cap = 0.0f) const {
    [[maybe_unused]] float slope[kWidth];
    if constexpr (kCaps) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float t = value[i] / cap;
        slope[i] = __fmaf_rn(-t, t, 1.0f);
      }
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) value[i] = softmax_.Exponential(value[i]) * scale_of_sum_;
    const bool has_target = target_ >= at && target_ < at + kWidth;
    if constexpr (!kCaps) {
      if (!has_target && counts_ && at + kWidth <= vocab_) return;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (at + i == target_) value[i] -= scale_;
      if constexpr (kCaps) value[i] *= slope[i];
      if (!counts_ || at + i >= vocab_) value[i] = 0.0f;
    }
  }

 private:
  const Softmax& softmax_;
  const int vocab_;
  const int target_;
  const float scale_;
  const float scale_of_sum_;
  const bool counts_;
};

// A block processes a row, which it copies to shared memory. Packs are divided among the threads,
// and each thread processes only the packs that it has copied. A row is copied in parts, and one
// part is summed while the next ones arrive.
template <typename T, int kBlock>
__global__ void __launch_bounds__(kBlock)
    CachedSoftmaxLossKernel(int vocab, int stride, float* logits, const int32_t* targets,
                            LossDivisor divisor, const float* weights, bool gradients,
                            float grad_scale, float* losses) {
  ZEROTH_SHARED(float, scratch, [kBlock / 32]);
  ZEROTH_DYNAMIC_SHARED(float, cache);
  const int64_t row = blockIdx.x;
  const float* const x = logits + row * stride;
  const int32_t target = targets[row];
  const bool counts = Counts(target, vocab);
  const float at_target = counts ? x[target] : 0.0f;
  const int first = static_cast<int>(threadIdx.x) * kWidth;
  constexpr int kStep = kBlock * kWidth;
  constexpr int kParts = 4;
  const int steps = (vocab + kStep - 1) / kStep;
  const auto for_part = [&](int part, const auto& use) {
    const int end = first + steps * (part + 1) / kParts * kStep;
    for (int at = first + steps * part / kParts * kStep; at < end && at < vocab; at += kStep) {
      use(at);
    }
  };
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    for_part(part, [&](int at) { CopyAsync16(cache + at, x + at, true); });
    CommitCopies();
  }

  float value[kWidth] = {};
  Softmax softmax;
  const auto add_part = [&](int part) {
    float most = softmax.largest;
    for_part(part, [&](int at) {
      LoadLogits(cache, at, vocab, value);
      most = LargestOf(most, value);
    });
    softmax.Raise(most);
    for_part(part, [&](int at) {
      LoadLogits(cache, at, vocab, value);
      softmax.Add(value);
    });
  };
  static_assert(kParts == 4);
  WaitForCopies<3>();
  add_part(0);
  WaitForCopies<2>();
  add_part(1);
  WaitForCopies<1>();
  add_part(2);
  WaitForCopies<0>();
  add_part(3);
  softmax = OverBlock<kBlock>(softmax, scratch);
  if (threadIdx.x == 0) {
    losses[row] = counts ? softmax.Loss(at_target) : 0.0f;
  }
  if (!gradients) return;

  T* const dx = reinterpret_cast<T*>(logits + row * stride);
  const Gradients gradients_of(softmax, vocab, target, RowScale(divisor, weights, row, grad_scale));
  for (int at = first; at < stride; at += kStep) {
    if (at < vocab) LoadPack<kWidth>(cache + at, value);
    gradients_of.Replace(at, value);
    StorePack<kWidth>(value, dx + at);
  }
}

// Does the same without copying the row. In the first pass, each thread keeps its maximum and the
// sum relative to that. The second pass overwrites the logits with gradients, a stretch at a time.
// A gradient is not longer than a logit, so that a stretch overwrites nothing that later stretches
// read. If `kCaps`, both passes cap the logits as they load them.
template <typename T, bool kCaps>
__global__ void __launch_bounds__(kThreads)
    SoftmaxLossKernel(int vocab, int stride, float* logits, const int32_t* targets,
                      LossDivisor divisor, const float* weights, bool gradients, float grad_scale,
                      float* losses, float cap) {
  ZEROTH_SHARED(float, scratch, [kThreads / 32]);
  const int64_t row = blockIdx.x;
  const float* const x = logits + row * stride;
  T* const dx = reinterpret_cast<T*>(logits + row * stride);
  const int32_t target = targets[row];
  const bool counts = Counts(target, vocab);
  float at_target = counts ? x[target] : 0.0f;
  if constexpr (kCaps) at_target = SoftCap(at_target, cap);

  constexpr int kStep = kThreads * kWidth;
  const int first = static_cast<int>(threadIdx.x) * kWidth;
  float value[kWidth] = {};
  Softmax softmax;
  for (int at = first; at < vocab; at += kStep) {
    LoadLogits<kCaps>(x, at, vocab, value, cap);
    softmax.Raise(LargestOf(softmax.largest, value));
    softmax.Add(value);
  }
  softmax = OverBlock<kThreads>(softmax, scratch);
  if (threadIdx.x == 0) {
    losses[row] = counts ? softmax.Loss(at_target) : 0.0f;
  }
  if (!gradients) return;

  const Gradients gradients_of(softmax, vocab, target, RowScale(divisor, weights, row, grad_scale));
  for (int begin = 0; begin < stride; begin += kStep) {
    const int at = begin + first;
    if constexpr (kCaps) {
      if (at < vocab) LoadLogits<true>(x, at, vocab, value, cap);
    } else {
      if (at < vocab) LoadPack<kWidth>(x + at, value);
    }
    gradients_of.template Replace<kCaps>(at, value, cap);
    __syncthreads();  // all threads have read this stretch
    if (at < stride) StorePack<kWidth>(value, dx + at);
  }
}

__global__ void __launch_bounds__(kThreads)
    MeanKernel(int64_t rows, const float* losses, const float* weights, LossDivisor divisor,
               float* loss) {
  ZEROTH_SHARED(double, sums, [kThreads]);
  double sum = 0.0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    const double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[row]);
    sum += static_cast<double>(losses[row]) * weight;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads; ++i) sum += sums[i];
  *loss =
      *divisor.counted == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(Value(divisor)));
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    RoundKernel(int64_t count, const float* sums, bool accumulate, T* out) {
  for (const int64_t i : ItemsOfThread(count)) {
    out[i] = FromFloat<T>(accumulate ? __fadd_rn(ToFloat(out[i]), sums[i]) : sums[i]);
  }
}

}  // namespace

absl::Status CountTargets(int64_t rows, int64_t vocab, const int32_t* targets, int32_t* counted,
                          DataErrorWord* error, const LaunchTarget& target) {
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counted, 0, sizeof(*counted), target.stream));
  return ZEROTH_LAUNCH(CountKernel, ThreadPerItemShape(rows), target.stream, rows, vocab, targets,
                       counted, error);
}

absl::Status SoftmaxLoss(int64_t rows, int64_t vocab, int64_t stride, float* logits,
                         const int32_t* targets, LossDivisor divisor, const float* weights,
                         bool gradients, DType dtype, float grad_scale, float cap, float* losses,
                         size_t shared_bytes, const LaunchTarget& target) {
  const auto row_bytes = static_cast<size_t>(stride) * sizeof(float);
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    const auto launch = [&](auto* kernel, int threads, size_t dynamic_shared_bytes, auto... more) {
      return Launch("SoftmaxLoss", kernel, Blocks(rows, threads, dynamic_shared_bytes),
                    target.stream, static_cast<int>(vocab), static_cast<int>(stride), logits,
                    targets, divisor, weights, gradients, grad_scale, losses, more...);
    };
    // The vocabularies of models with capped logits are too long for shared memory.
    if (cap > 0.0f) return launch(SoftmaxLossKernel<T, true>, kThreads, 0, cap);
    if (row_bytes + kStaticSharedBytes > shared_bytes) {
      return launch(SoftmaxLossKernel<T, false>, kThreads, 0, cap);
    }
    // A long row's block is alone on its SM, and needs all of its threads.
    return row_bytes > kShortRowBytes
               ? launch(CachedSoftmaxLossKernel<T, kLongRowThreads>, kLongRowThreads, row_bytes)
               : launch(CachedSoftmaxLossKernel<T, kShortRowThreads>, kShortRowThreads, row_bytes);
  });
}

absl::Status MeanLoss(int64_t rows, const float* losses, const float* weights, LossDivisor divisor,
                      float* loss, const LaunchTarget& target) {
  return ZEROTH_LAUNCH(MeanKernel, Blocks(1, kThreads), target.stream, rows, losses, weights,
                       divisor, loss);
}

absl::Status RoundSums(int64_t count, const float* sums, bool accumulate, DType dtype, void* out,
                       const LaunchTarget& target) {
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(RoundKernel<T>, count, target, count, sums, accumulate, static_cast<T*>(out));
  });
}

}  // namespace zeroth::cuda
