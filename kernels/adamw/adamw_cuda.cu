// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <type_traits>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/adamw/adamw_plan.h"
#include "zeroth/kernels/adamw/low_precision_device.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

// Every operation is spelled out. If the compiler fused operations in a vector body and not in its
// tail, an element's result would depend on its place.
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

// A typed view of a range. Addresses are read from the table at every use: kept in registers, they
// would leave registers for only two thirds of the threads.
template <typename P, typename G, typename M>
struct Arrays {
  const AdamWRange& range;

  __device__ __forceinline__ P* param() const { return static_cast<P*>(range.param); }
  __device__ __forceinline__ const G* grad() const { return static_cast<const G*>(range.grad); }
  __device__ __forceinline__ M* m() const { return static_cast<M*>(range.m); }
  __device__ __forceinline__ M* v() const { return static_cast<M*>(range.v); }
};

__device__ __forceinline__ AdamWCoefficients CoefficientsOf(const AdamWTable& table,
                                                            const AdamWRange& range) {
  return range.on_device == nullptr ? table.coefficients[range.set] : *range.on_device;
}

__device__ __forceinline__ float GradScale(const AdamWCoefficients& c, const AdamWTable& table) {
  return table.grad_factor == nullptr ? c.grad_scale : __fmul_rn(c.grad_scale, *table.grad_factor);
}

// Calls update(coefficients, scale, arrays, tile) for this thread block's tiles of all ranges,
// which are laid end to end. A range's scalars are read once for all of its tiles.
template <typename P, typename G, typename M, typename UpdateTile>
__device__ __forceinline__ void ForTiles(const AdamWTable& table, const UpdateTile& update) {
  int64_t tile = blockIdx.x;
  for (int i = 0; i < table.count; ++i) {
    const AdamWRange& range = table.ranges[i];
    const int64_t tiles = (range.count + kAdamWTile - 1) / kAdamWTile;
    if (tile < tiles) {
      const AdamWCoefficients c = CoefficientsOf(table, range);
      const float scale = GradScale(c, table);
      const Arrays<P, G, M> arrays{range};
      for (; tile < tiles; tile += gridDim.x) {
        if (scale == scale) update(c, scale, arrays, tile);  // NaN: a step to be skipped
      }
    }
    tile -= tiles;
  }
}

// Draws for N elements from `first` on, which is even unless N is 1.
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

// Rounds by draws, and stores. `shift`, 0 or 16, selects a half of each draw.
template <int N, typename T>
__device__ __forceinline__ void StoreRounded(const float (&from)[N], const uint32_t (&draws)[N],
                                             int shift, T* to) {
  float rounded[N];
#pragma unroll
  for (int i = 0; i < N; ++i) rounded[i] = RoundBy<T>(from[i], draws[i] >> shift);
  StorePack<N>(rounded, to);
}

// Updates elements [at, at + N).
template <int N, typename P, typename G, typename M>
__device__ __forceinline__ void UpdateElements(const AdamWCoefficients& c, float scale,
                                               const Arrays<P, G, M>& arrays, int64_t at) {
  float grad[N];
  float param[N];
  float m[N];
  float v[N];
  LoadPack<N>(arrays.grad() + at, grad);
  LoadPack<N>(arrays.param() + at, param);
  LoadPack<N>(arrays.m() + at, m);
  LoadPack<N>(arrays.v() + at, v);
#pragma unroll
  for (int i = 0; i < N; ++i) Update(c, scale, grad[i], param[i], m[i], v[i]);
  uint32_t moments[N] = {};
  uint32_t params[N] = {};
  if constexpr (std::is_same_v<P, bf16> || std::is_same_v<M, bf16>) {
    DrawElements<N>(c, arrays.range.stream, arrays.range.first_element + at, moments, params);
  }
  StoreRounded<N>(param, params, 0, arrays.param() + at);
  StoreRounded<N>(m, moments, 0, arrays.m() + at);
  StoreRounded<N>(v, moments, 16, arrays.v() + at);
}

template <typename P, typename G, typename M>
__device__ __forceinline__ void UpdateTile(const AdamWCoefficients& c, float scale,
                                           const Arrays<P, G, M>& arrays, int64_t tile) {
  const int64_t begin = tile * kAdamWTile;
  if (arrays.range.packed) {
    const int64_t at = begin + int64_t{threadIdx.x} * kAdamWWidth;
    if (at + kAdamWWidth <= arrays.range.count) {
      UpdateElements<kAdamWWidth>(c, scale, arrays, at);
      return;
    }
    for (int64_t e = at; e < arrays.range.count; ++e) UpdateElements<1>(c, scale, arrays, e);
    return;
  }
  for (int turn = 0; turn < kAdamWWidth; ++turn) {
    const int64_t at = begin + turn * kMapThreads + threadIdx.x;
    if (at < arrays.range.count) UpdateElements<1>(c, scale, arrays, at);
  }
}

template <typename P, typename G, typename M>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    AdamWKernel(const __grid_constant__ AdamWTable table) {
  ForTiles<P, G, M>(table,
                    [](const AdamWCoefficients& c, float scale, const Arrays<P, G, M>& arrays,
                       int64_t tile) { UpdateTile(c, scale, arrays, tile); });
}

// Number of elements of a block of 8-bit moments per lane. A warp processes a block, so that a few
// shuffles give the block's maxima.
constexpr int kBlockWidth = static_cast<int>(kMomentBlock) / 32;

// Loads a lane's elements of a block: all kBlockWidth as a pack, or `left` of them one by one.
// kWhole is a template parameter, and the same for the whole warp, because the compiler would
// otherwise split the packs.
template <bool kWhole, typename T>
__device__ __forceinline__ void LoadUpTo(const T* from, int left, float (&to)[kBlockWidth]) {
  if constexpr (kWhole) {
    LoadPack<kBlockWidth>(from, to);
  } else {
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) to[i] = i < left ? ToFloat(from[i]) : 0.0f;
  }
}

template <bool kWhole, typename Code>
__device__ __forceinline__ void DecodeUpTo(const uint8_t* from, int left, float scale,
                                           float (&to)[kBlockWidth]) {
  Pack<uint8_t, kBlockWidth> codes = {};
  if constexpr (kWhole) {
    codes = *reinterpret_cast<const Pack<uint8_t, kBlockWidth>*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) codes.at[i] = i < left ? from[i] : uint8_t{0};
  }
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) to[i] = DecodeMoment<Code>(codes.at[i], scale);
}

template <bool kWhole, typename T>
__device__ __forceinline__ void StoreUpTo(const float (&from)[kBlockWidth], int left, T* to) {
  if constexpr (kWhole) {
    StorePackAtOnce<kBlockWidth>(from, to);
  } else {
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) {
      if (i < left) to[i] = FromFloat<T>(from[i]);
    }
  }
}

// Stores a lane's codes in the same way.
template <bool kWhole>
__device__ __forceinline__ void StoreUpTo(const Pack<uint8_t, kBlockWidth>& codes, int left,
                                          uint8_t* to) {
  if constexpr (kWhole) {
    *reinterpret_cast<Pack<uint8_t, kBlockWidth>*>(to) = codes;
  } else {
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) {
      if (i < left) to[i] = codes.at[i];
    }
  }
}

// Returns the scale of the warp's block to every lane.
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
    float inverse) {
  Pack<uint8_t, kBlockWidth> codes;
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) {
    codes.at[i] = EncodeMoment<Code>(values[i], (draws[i] >> shift) & 0xffffu, inverse);
  }
  return codes;
}

// Updates the warp's block `block` of the range.
template <bool kWhole, typename P, typename G>
__device__ __forceinline__ void UpdateBlock(const AdamWCoefficients& c, float grad_scale,
                                            const Arrays<P, G, uint8_t>& arrays, int64_t block) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t at = block * kMomentBlock + lane * kBlockWidth;
  // The number of this lane's elements.
  const int64_t rest = arrays.range.count - at;
  const int left = kWhole || rest > kBlockWidth ? kBlockWidth : static_cast<int>(rest);
  float grad[kBlockWidth];
  float param[kBlockWidth];
  float m[kBlockWidth];
  float v[kBlockWidth];
  LoadUpTo<kWhole>(arrays.grad() + at, left, grad);
  LoadUpTo<kWhole>(arrays.param() + at, left, param);
  DecodeUpTo<kWhole, FirstMomentCode>(arrays.m() + at, left, arrays.range.m_scale[block], m);
  DecodeUpTo<kWhole, SecondMomentCode>(arrays.v() + at, left, arrays.range.v_scale[block], v);
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) Update(c, grad_scale, grad[i], param[i], m[i], v[i]);
    // Lanes past the end are zeros, so that a scale that is NaN does not spread from them.
#pragma unroll
  for (int i = 0; i < kBlockWidth; ++i) {
    m[i] = i < left ? m[i] : 0.0f;
    v[i] = i < left ? v[i] : 0.0f;
  }
  const float m_scale = BlockScale<FirstMomentCode>(m);
  const float v_scale = BlockScale<SecondMomentCode>(v);
  __syncwarp();  // every lane has read the old scales; shuffles do not order memory
  if (lane == 0) {
    arrays.range.m_scale[block] = m_scale;
    arrays.range.v_scale[block] = v_scale;
  }
  const float m_inverse = __fdiv_rn(1.0f, m_scale);
  const float v_inverse = __fdiv_rn(1.0f, v_scale);
  uint32_t moments[kBlockWidth];
  uint32_t params[kBlockWidth];
  // A parameter that is not rounded is stored before the draws exist, which keeps fewer values in
  // registers.
  if constexpr (std::is_same_v<P, float>) StoreUpTo<kWhole>(param, left, arrays.param() + at);
  DrawElements<kBlockWidth>(c, arrays.range.stream, arrays.range.first_element + at, moments,
                            params);
  if constexpr (!std::is_same_v<P, float>) {
#pragma unroll
    for (int i = 0; i < kBlockWidth; ++i) param[i] = RoundBy<P>(param[i], params[i]);
    StoreUpTo<kWhole>(param, left, arrays.param() + at);
  }
  StoreUpTo<kWhole>(EncodeBlock<FirstMomentCode>(m, moments, 0, m_inverse), left, arrays.m() + at);
  StoreUpTo<kWhole>(EncodeBlock<SecondMomentCode>(v, moments, 16, v_inverse), left,
                    arrays.v() + at);
}

// Updates this warp's block of the tile; each warp has one.
template <typename P, typename G>
__device__ __forceinline__ void UpdateBlockOfTile(const AdamWCoefficients& c, float grad_scale,
                                                  const Arrays<P, G, uint8_t>& arrays,
                                                  int64_t tile) {
  const int64_t block = tile * (kAdamWTile / kMomentBlock) + threadIdx.x / 32;
  const int64_t rest = arrays.range.count - block * kMomentBlock;
  if (rest <= 0) return;
  if (arrays.range.packed && rest >= kMomentBlock) {
    UpdateBlock<true>(c, grad_scale, arrays, block);
  } else {
    UpdateBlock<false>(c, grad_scale, arrays, block);
  }
}

// Resident blocks per SM: 64 registers suffice for bf16 parameters; fp32 ones take up to 80.
template <typename P>
constexpr int kEightBitBlocks = std::is_same_v<P, float> ? 3 : 4;

template <typename P, typename G>
__global__ void __launch_bounds__(kMapThreads, kEightBitBlocks<P>)
    EightBitAdamWKernel(const __grid_constant__ AdamWTable table) {
  static_assert(kAdamWTile / kMomentBlock == kMapThreads / 32);
  ForTiles<P, G, uint8_t>(
      table, [](const AdamWCoefficients& c, float scale, const Arrays<P, G, uint8_t>& arrays,
                int64_t tile) { UpdateBlockOfTile(c, scale, arrays, tile); });
}

template <typename P, typename G, typename M>
absl::Status Launch(const AdamWLaunch& launch, const LaunchTarget& target) {
  const int64_t items = launch.tiles * kMapThreads;
  if constexpr (std::is_same_v<M, uint8_t>) {
    return ZEROTH_LAUNCH((EightBitAdamWKernel<P, G>),
                         MapShape(items, target.multiprocessors, kEightBitBlocks<P>), target.stream,
                         launch.table);
  } else {
    return ZEROTH_MAP((AdamWKernel<P, G, M>), items, target, launch.table);
  }
}

// Calls function(TypeTag<T>()) for a type that the optimizer keeps: fp32 or bf16.
template <typename Function>
absl::Status DispatchKept(DType dtype, const Function& function) {
  return dtype == DType::kBFloat16 ? function(TypeTag<bf16>()) : function(TypeTag<float>());
}

absl::Status LaunchAny(const AdamWLaunch& launch, const LaunchTarget& target) {
  return DispatchKept(launch.types.param, [&]<typename P>(TypeTag<P>) {
    return DispatchType(launch.types.grad, [&]<typename G>(TypeTag<G>) {
      if (launch.types.moment == DType::kUInt8) return Launch<P, G, uint8_t>(launch, target);
      return DispatchKept(launch.types.moment,
                          [&]<typename M>(TypeTag<M>) { return Launch<P, G, M>(launch, target); });
    });
  });
}

// Launches the plan of PlanAdamW: one pass over memory, 28 bytes for an element in fp32, 14 in
// bf16, and 10.1 with 8-bit moments of bf16 parameters and gradients.
absl::Status AdamW(const AdamWCall& call, CudaKernels& kernels) {
  for (const AdamWLaunch& launch : PlanAdamW(call.ranges)) {
    ZEROTH_RETURN_IF_ERROR(LaunchAny(launch, kernels.target()));
  }
  return absl::OkStatus();
}
const OnCuda<AdamW> adamw;

}  // namespace
}  // namespace zeroth::cuda
