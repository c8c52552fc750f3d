// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/activation/activation_device.h"
#include "zeroth/kernels/adamw/low_precision_device.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

// The operations on elements of a and b. `element` is their index in the dropout's stream.
struct ScaleOf {
  float scalar;
  __device__ float operator()(float a, float, int64_t) const { return __fmul_rn(scalar, a); }
};
struct FillWith {
  float scalar;
  __device__ float operator()(float, float, int64_t) const { return scalar; }
};
struct ProductOf {
  __device__ float operator()(float a, float b, int64_t) const { return __fmul_rn(a, b); }
};
struct ReluOf {
  __device__ float operator()(float a, float, int64_t) const { return a < 0.0f ? 0.0f : a; }
};
struct ReluGradient {
  __device__ float operator()(float a, float b, int64_t) const { return a > 0.0f ? b : 0.0f; }
};
struct SiluForward {
  __device__ float operator()(float a, float, int64_t) const { return SiluOf(a); }
};
struct SiluGradient {
  __device__ float operator()(float a, float b, int64_t) const { return b * SiluSlope(a); }
};
struct TanhOf {
  __device__ float operator()(float a, float, int64_t) const { return tanhf(a); }
};
struct SoftCapOf {
  float cap;
  __device__ float operator()(float a, float, int64_t) const { return cap * tanhf(a / cap); }
};
struct TanhGradient {
  __device__ float operator()(float a, float b, int64_t) const {
    return b * __fmaf_rn(-a, a, 1.0f);
  }
};
struct SigmoidOf {
  __device__ float operator()(float a, float, int64_t) const { return Logistic(a); }
};
struct SigmoidGradient {
  __device__ float operator()(float a, float b, int64_t) const { return b * (a * (1.0f - a)); }
};
struct DropoutOf {
  RoundingKey key;
  uint64_t stream;
  uint32_t threshold;
  float kept;
  __device__ float operator()(float a, float, int64_t element) const {
    const PairDraws words = DrawPair(key, stream, static_cast<uint64_t>(element) / 4);
    // Indexing the words at run time would put them into local memory.
    const bool odd = element % 2 != 0;
    const uint32_t low = odd ? words.moments[1] : words.moments[0];
    const uint32_t high = odd ? words.params[1] : words.params[0];
    const uint32_t word = element % 4 < 2 ? low : high;
    return word < threshold ? 0.0f : __fmul_rn(kept, a);
  }
};

template <typename T>
__device__ __forceinline__ void Put(const BasicCall& call, int64_t at, float value) {
  T* out = static_cast<T*>(call.out) + at;
  *out = FromFloat<T>(call.accumulate ? __fadd_rn(ToFloat(*out), value) : value);
}

// A, B and Out are the types of a, b and the result.
template <typename A, typename B, typename Out, typename F>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    ElementsOf(BasicCall call, bool one_piece, F f) {
  for (const int64_t i : ItemsOfThread(call.rows * call.cols)) {
    const int64_t row = one_piece ? 0 : i / call.cols;
    const int64_t column = one_piece ? i : i - row * call.cols;
    const float a = ToFloat(static_cast<const A*>(call.a)[row * call.a_stride + column]);
    const float b = ToFloat(static_cast<const B*>(call.b)[row * call.b_stride + column]);
    const int64_t element = call.draws.first_element + row * call.draws.row_elements + column;
    Put<Out>(call, row * call.out_stride + column, f(a, b, element));
  }
}

constexpr int kRowWarps = 4;

// One warp computes each row.
template <typename T>
__global__ void __launch_bounds__(kRowWarps * 32) SoftmaxRows(BasicCall call) {
  const int64_t row = int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32;
  if (row >= call.rows) return;  // the whole warp
  const T* a = static_cast<const T*>(call.a) + row * call.a_stride;
  const T* b = static_cast<const T*>(call.b) + row * call.b_stride;
  const int64_t out = row * call.out_stride;
  const int64_t lane = threadIdx.x % 32;
  if (call.op == BasicOp::kSoftmaxBackward) {
    float dot = 0.0f;
    for (int64_t c = lane; c < call.cols; c += 32) {
      dot = __fmaf_rn(ToFloat(a[c]), ToFloat(b[c]), dot);
    }
    dot = WarpSum(dot);
    for (int64_t c = lane; c < call.cols; c += 32) {
      Put<T>(call, out + c, ToFloat(a[c]) * (ToFloat(b[c]) - dot));
    }
    return;
  }
  float largest = __uint_as_float(0xff800000u);  // -infinity
  for (int64_t c = lane; c < call.cols; c += 32) largest = fmaxf(largest, ToFloat(a[c]));
  largest = WarpMax(largest);
  float sum = 0.0f;
  for (int64_t c = lane; c < call.cols; c += 32) sum += expf(ToFloat(a[c]) - largest);
  const float inverse = 1.0f / WarpSum(sum);
  for (int64_t c = lane; c < call.cols; c += 32) {
    Put<T>(call, out + c, expf(ToFloat(a[c]) - largest) * inverse);
  }
}

// One thread computes each element of the result. Reads of wide matrices are then coalesced.
template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    MeanByThread(BasicCall call) {
  for (const int64_t i : ItemsOfThread(call.rows * call.cols)) {
    const int64_t row = i / call.cols;
    const int64_t column = i - row * call.cols;
    const T* a = static_cast<const T*>(call.a) + row * call.group * call.a_stride + column;
    double sum = 0.0;
    for (int64_t k = 0; k < call.group; ++k) sum += ToFloat(a[k * call.a_stride]);
    Put<T>(call, row * call.out_stride + column,
           static_cast<float>(sum / static_cast<double>(call.group)));
  }
}

// One block computes each element of the result, for narrow matrices, whose groups may be long.
constexpr int kMeanThreads = 256;
template <typename T>
__global__ void __launch_bounds__(kMeanThreads) MeanByBlock(BasicCall call) {
  ZEROTH_SHARED(double, sums, [kMeanThreads]);
  const int64_t row = int64_t{blockIdx.x} / call.cols;
  const int64_t column = int64_t{blockIdx.x} - row * call.cols;
  const T* a = static_cast<const T*>(call.a) + row * call.group * call.a_stride + column;
  double sum = 0.0;
  for (int64_t k = threadIdx.x; k < call.group; k += kMeanThreads) {
    sum += ToFloat(a[k * call.a_stride]);
  }
  sums[threadIdx.x] = sum;
  for (unsigned half = kMeanThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) {
    Put<T>(call, row * call.out_stride + column,
           static_cast<float>(sums[0] / static_cast<double>(call.group)));
  }
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    MeanGradient(BasicCall call) {
  for (const int64_t i : ItemsOfThread(call.rows * call.cols)) {
    const int64_t row = i / call.cols;
    const int64_t column = i - row * call.cols;
    const T* a = static_cast<const T*>(call.a) + row / call.group * call.a_stride;
    Put<T>(call, row * call.out_stride + column,
           __fdiv_rn(ToFloat(a[column]), static_cast<float>(call.group)));
  }
}

template <typename T>
absl::Status BasicOf(const BasicCall& call, const LaunchTarget& target) {
  const LaunchShape each = MapShape(call.rows * call.cols, target.multiprocessors);
  const auto elements_of = [&]<typename B, typename Out>(TypeTag<B>, TypeTag<Out>, auto f) {
    const bool one_piece = call.a_stride == call.cols && call.b_stride == call.cols &&
                           call.out_stride == call.cols && call.draws.row_elements == call.cols;
    return ZEROTH_LAUNCH((ElementsOf<T, B, Out, decltype(f)>), each, target.stream, call, one_piece,
                         f);
  };
  const auto elements = [&](auto f) { return elements_of(TypeTag<T>(), TypeTag<T>(), f); };
  switch (call.op) {
    case BasicOp::kScale:
      return elements(ScaleOf{call.scalar});
    case BasicOp::kFill:
      return elements(FillWith{call.scalar});
    case BasicOp::kMultiply:
      if (call.b_dtype != call.dtype && call.out_dtype != call.dtype) {
        return elements_of(TypeTag<float>(), TypeTag<float>(), ProductOf());
      }
      if (call.b_dtype != call.dtype) {
        return elements_of(TypeTag<float>(), TypeTag<T>(), ProductOf());
      }
      if (call.out_dtype != call.dtype) {
        return elements_of(TypeTag<T>(), TypeTag<float>(), ProductOf());
      }
      return elements(ProductOf());
    case BasicOp::kRelu:
      return elements(ReluOf());
    case BasicOp::kReluBackward:
      return elements(ReluGradient());
    case BasicOp::kSilu:
      return elements(SiluForward());
    case BasicOp::kSiluBackward:
      return elements(SiluGradient());
    case BasicOp::kTanh:
      return elements(TanhOf());
    case BasicOp::kSoftCap:
      return elements(SoftCapOf{call.scalar});
    case BasicOp::kTanhBackward:
      return elements(TanhGradient());
    case BasicOp::kSigmoid:
      return elements(SigmoidOf());
    case BasicOp::kSigmoidBackward:
      return elements(SigmoidGradient());
    case BasicOp::kDropout:
      return elements(DropoutOf{call.draws.key, call.draws.stream, DropoutThreshold(call.scalar),
                                1.0f / (1.0f - call.scalar)});
    case BasicOp::kSoftmax:
    case BasicOp::kSoftmaxBackward:
      return ZEROTH_LAUNCH((SoftmaxRows<T>), WarpPerRowShape(call.rows, kRowWarps), target.stream,
                           call);
    case BasicOp::kMean:
      if (call.cols < 32 && call.rows * call.cols <= INT32_MAX) {
        return ZEROTH_LAUNCH((MeanByBlock<T>), Blocks(call.rows * call.cols, kMeanThreads),
                             target.stream, call);
      }
      return ZEROTH_LAUNCH((MeanByThread<T>), each, target.stream, call);
    case BasicOp::kMeanBackward:
      return ZEROTH_LAUNCH((MeanGradient<T>), each, target.stream, call);
  }
  return absl::InternalError("no such basic operation");
}

absl::Status Basic(const BasicCall& call, CudaKernels& kernels) {
  if (call.rows == 0 || call.cols == 0) return absl::OkStatus();
  return DispatchType(call.dtype,
                      [&]<typename T>(TypeTag<T>) { return BasicOf<T>(call, kernels.target()); });
}
const OnCuda<Basic> basic;

}  // namespace

}  // namespace zeroth::cuda
