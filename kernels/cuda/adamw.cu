// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <type_traits>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/adamw.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/low_precision.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

// Every operation is spelled out: what the compiler fuses in a vector body and not in its tail
// would make an element's result depend on its place.
__device__ __forceinline__ void Update(const AdamWCoefficients& c, float scale, float grad,
                                       float& param, float& m, float& v) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  const float g = __fmul_rn(grad, scale);
  m = __fmaf_rn(c.beta1, m, __fmul_rn(c.one_minus_beta1, g));
  v = __fmaf_rn(c.beta2, v, __fmul_rn(c.one_minus_beta2, __fmul_rn(g, g)));
  if (fabsf(m) < kSmallestNormal) m = 0.0f;
  if (fabsf(v) < kSmallestNormal) v = 0.0f;
  const float denominator = __fmaf_rn(__fsqrt_rn(v), c.root_scale, c.eps);
  const float change = __fmaf_rn(c.decay, param, __fdiv_rn(__fmul_rn(c.step, m), denominator));
  param = __fsub_rn(param, change);
}

// What a kernel is told: the call without its types, and where they are its template's.
template <typename P, typename G, typename M>
struct Arrays {
  int64_t count;
  P* param;
  const G* grad;
  M* m;
  M* v;
  float* m_scale;
  float* v_scale;
  const float* grad_factor;
  uint64_t stream;
  int64_t first_element;
};

template <typename P, typename G, typename M>
__device__ __forceinline__ float GradScale(const AdamWCoefficients& c,
                                           const Arrays<P, G, M>& arrays) {
  return arrays.grad_factor == nullptr ? c.grad_scale
                                       : __fmul_rn(c.grad_scale, *arrays.grad_factor);
}

// Of N elements from `first` on, which is even unless N is 1.
template <int N>
__device__ __forceinline__ void DrawElements(const AdamWCoefficients& c, uint64_t stream,
                                             int64_t first, uint32_t (&moments)[N],
                                             uint32_t (&params)[N]) {
  if constexpr (N == 1) {
    const PairDraws draws = DrawPair(c.rounding, stream, static_cast<uint64_t>(first) / 2);
    const bool odd = first % 2 != 0;
    moments[0] = odd ? draws.moments[1] : draws.moments[0];
    params[0] = odd ? draws.params[1] : draws.params[0];
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const PairDraws draws = DrawPair(c.rounding, stream, static_cast<uint64_t>(first + i) / 2);
      moments[i] = draws.moments[0];
      moments[i + 1] = draws.moments[1];
      params[i] = draws.params[0];
      params[i + 1] = draws.params[1];
    }
  }
}

// `shift` selects the half of each draw.
template <int N, typename T>
__device__ __forceinline__ void StoreRounded(const float (&from)[N], const uint32_t (&draws)[N],
                                             int shift, T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = RoundBy<T>(from[i], draws[i] >> shift);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Elements [at, at + N).
template <int N, typename P, typename G, typename M>
__device__ __forceinline__ void UpdateElements(const AdamWCoefficients& c, float scale,
                                               const Arrays<P, G, M>& arrays, int64_t at) {
  float grad[N];
  float param[N];
  float m[N];
  float v[N];
  LoadPack<N>(arrays.grad + at, grad);
  LoadPack<N>(arrays.param + at, param);
  LoadPack<N>(arrays.m + at, m);
  LoadPack<N>(arrays.v + at, v);
#pragma unroll
  for (int i = 0; i < N; ++i) Update(c, scale, grad[i], param[i], m[i], v[i]);
  uint32_t moments[N] = {};
  uint32_t params[N] = {};
  if constexpr (std::is_same_v<P, bf16> || std::is_same_v<M, bf16>) {
    DrawElements<N>(c, arrays.stream, arrays.first_element + at, moments, params);
  }
  StoreRounded<N>(param, params, 0, arrays.param + at);
  StoreRounded<N>(m, moments, 0, arrays.m + at);
  StoreRounded<N>(v, moments, 16, arrays.v + at);
}

template <int N, typename P, typename G, typename M>
__global__ void __launch_bounds__(kMapThreads)
    AdamWKernel(AdamWCoefficients scalars, const AdamWCoefficients* on_device,
                Arrays<P, G, M> arrays) {
  const AdamWCoefficients c = on_device == nullptr ? scalars : *on_device;
  const float scale = GradScale(c, arrays);
  if (scale != scale) return;  // a step to be skipped
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = first * N; at + N <= arrays.count; at += step * N) {
    UpdateElements<N>(c, scale, arrays, at);
  }
  const int64_t rest = arrays.count / N * N + first;
  if (rest < arrays.count) UpdateElements<1>(c, scale, arrays, rest);
}

// Elements that a lane has of a block of 8-bit moments, which is a warp's work: its maxima are
// then a few shuffles away from registers.
constexpr int kBlockWidth = static_cast<int>(kMomentBlock) / 32;

// Where packs may be read, or elements one by one; zeros past the end.
template <typename T>
__device__ __forceinline__ void LoadUpTo(const T* from, int64_t left, bool packed,
                                         float (&to)[kBlockWidth]) {
  if (packed && left >= kBlockWidth) {
    LoadPack<kBlockWidth>(from, to);
    return;
  }
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) to[i] = i < left ? ToFloat(from[i]) : 0.0f;
}

template <typename Code>
__device__ __forceinline__ void DecodeUpTo(const uint8_t* from, int64_t left, bool packed,
                                           float scale, float (&to)[kBlockWidth]) {
  Pack<uint8_t, kBlockWidth> codes = {};
  if (packed && left >= kBlockWidth) {
    codes = *reinterpret_cast<const Pack<uint8_t, kBlockWidth>*>(from);
  } else {
    for (int i = 0; i < kBlockWidth && i < left; ++i) codes.at[i] = from[i];
  }
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) to[i] = DecodeMoment<Code>(codes.at[i], scale);
}

template <typename T>
__device__ __forceinline__ void StoreUpTo(const Pack<T, kBlockWidth>& pack, int64_t left,
                                          bool packed, T* to) {
  if (packed && left >= kBlockWidth) {
    *reinterpret_cast<Pack<T, kBlockWidth>*>(to) = pack;
    return;
  }
  for (int i = 0; i < kBlockWidth && i < left; ++i) to[i] = pack.at[i];
}

// The scale of the warp's block, on every lane.
template <typename Code>
__device__ __forceinline__ float BlockScale(const float (&values)[kBlockWidth]) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) {
    const uint32_t magnitude = __float_as_uint(values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return MomentScale<Code>(WarpMax(largest));
}

template <typename Code>
__device__ __forceinline__ Pack<uint8_t, kBlockWidth> EncodeBlock(
    const float (&values)[kBlockWidth], const uint32_t (&draws)[kBlockWidth], int shift,
    float scale) {
  const float inverse = __fdiv_rn(1.0f, scale);
  Pack<uint8_t, kBlockWidth> codes;
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) {
    codes.at[i] = EncodeMoment<Code>(values[i], (draws[i] >> shift) & 0xffffu, inverse);
  }
  return codes;
}

template <typename P, typename G>
__global__ void __launch_bounds__(kMapThreads)
    EightBitAdamWKernel(AdamWCoefficients scalars, const AdamWCoefficients* on_device,
                        Arrays<P, G, uint8_t> arrays, bool packed) {
  const AdamWCoefficients c = on_device == nullptr ? scalars : *on_device;
  const float grad_scale = GradScale(c, arrays);
  if (grad_scale != grad_scale) return;  // a step to be skipped
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t warps = int64_t{gridDim.x} * (blockDim.x / 32);
  int64_t block = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  for (; block * kMomentBlock < arrays.count; block += warps) {
    const int64_t at = block * kMomentBlock + lane * kBlockWidth;
    const int64_t left = arrays.count - at;
    float grad[kBlockWidth];
    float param[kBlockWidth];
    float m[kBlockWidth];
    float v[kBlockWidth];
    LoadUpTo(arrays.grad + at, left, packed, grad);
    LoadUpTo(arrays.param + at, left, packed, param);
    DecodeUpTo<FirstMomentCode>(arrays.m + at, left, packed, arrays.m_scale[block], m);
    DecodeUpTo<SecondMomentCode>(arrays.v + at, left, packed, arrays.v_scale[block], v);
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) Update(c, grad_scale, grad[i], param[i], m[i], v[i]);
      // Past the end, where scales that are NaN must not spread from.
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) {
      m[i] = i < left ? m[i] : 0.0f;
      v[i] = i < left ? v[i] : 0.0f;
    }
    uint32_t moments[kBlockWidth];
    uint32_t params[kBlockWidth];
    DrawElements<kBlockWidth>(c, arrays.stream, arrays.first_element + at, moments, params);
    Pack<P, kBlockWidth> rounded;
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) rounded.at[i] = RoundBy<P>(param[i], params[i]);
    StoreUpTo(rounded, left, packed, arrays.param + at);
    // The shuffles in here come after every lane has read the old scales.
    const float m_scale = BlockScale<FirstMomentCode>(m);
    const float v_scale = BlockScale<SecondMomentCode>(v);
    StoreUpTo(EncodeBlock<FirstMomentCode>(m, moments, 0, m_scale), left, packed, arrays.m + at);
    StoreUpTo(EncodeBlock<SecondMomentCode>(v, moments, 16, v_scale), left, packed, arrays.v + at);
    if (lane == 0) {
      arrays.m_scale[block] = m_scale;
      arrays.v_scale[block] = v_scale;
    }
  }
}

template <typename P, typename G, typename M>
absl::Status Launch(const AdamWCall& call, const LaunchTarget& target) {
  Arrays<P, G, M> arrays;
  arrays.count = call.count;
  arrays.param = static_cast<P*>(call.param);
  arrays.grad = static_cast<const G*>(call.grad);
  arrays.m = static_cast<M*>(call.m);
  arrays.v = static_cast<M*>(call.v);
  arrays.m_scale = call.m_scale;
  arrays.v_scale = call.v_scale;
  arrays.grad_factor = call.grad_factor;
  arrays.stream = call.stream;
  arrays.first_element = call.first_element;
  const bool packed = ArePacked(arrays.param, arrays.grad, arrays.m, arrays.v);
  if constexpr (std::is_same_v<M, uint8_t>) {
    const int64_t blocks = (call.count + kMomentBlock - 1) / kMomentBlock;
    return ZEROTH_LAUNCH((EightBitAdamWKernel<P, G>), MapShape(blocks * 32, target.multiprocessors),
                         target.stream, call.coefficients, call.on_device, arrays, packed);
  } else {
    // Four floats of each array in flight hide the memory's latency; more cost registers.
    constexpr int kWidth = 4;
    if (packed && call.first_element % 2 == 0) {
      return ZEROTH_LAUNCH((AdamWKernel<kWidth, P, G, M>),
                           MapShape((call.count + kWidth - 1) / kWidth, target.multiprocessors),
                           target.stream, call.coefficients, call.on_device, arrays);
    }
    return ZEROTH_LAUNCH((AdamWKernel<1, P, G, M>), MapShape(call.count, target.multiprocessors),
                         target.stream, call.coefficients, call.on_device, arrays);
  }
}

// function(TypeTag<T>()) for what the optimizer keeps: fp32 or bf16.
template <typename Function>
absl::Status DispatchKept(DType dtype, const Function& function) {
  return dtype == DType::kBFloat16 ? function(TypeTag<bf16>()) : function(TypeTag<float>());
}

}  // namespace

absl::Status AdamW(const AdamWCall& call, const LaunchTarget& target) {
  return DispatchKept(call.param_dtype, [&](auto param) {
    return DispatchType(call.grad_dtype, [&](auto grad) {
      using P = typename decltype(param)::type;
      using G = typename decltype(grad)::type;
      if (call.moment_dtype == DType::kUInt8) return Launch<P, G, uint8_t>(call, target);
      return DispatchKept(call.moment_dtype, [&](auto moment) {
        return Launch<P, G, typename decltype(moment)::type>(call, target);
      });
    });
  });
}

}  // namespace zeroth::cuda
