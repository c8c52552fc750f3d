// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Elements in device code. Arithmetic is float; memory holds float or 16-bit floats, and is
// accessed in packs of 16 bytes where it is aligned.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda {

using bf16 = __nv_bfloat16;
using fp16 = __half;

__host__ __device__ __forceinline__ float ToFloat(float x) { return x; }
__host__ __device__ __forceinline__ float ToFloat(bf16 x) { return __bfloat162float(x); }
__host__ __device__ __forceinline__ float ToFloat(fp16 x) { return __half2float(x); }

// Rounds to nearest even.
template <typename T>
__host__ __device__ __forceinline__ T FromFloat(float x);
template <>
__host__ __device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__host__ __device__ __forceinline__ bf16 FromFloat<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__host__ __device__ __forceinline__ fp16 FromFloat<fp16>(float x) {
  return __float2half_rn(x);
}

// N elements that are loaded or stored by one instruction.
template <typename T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T at[N];
};

// The number of elements in a 16-byte pack of the smaller of two types.
template <typename A, typename B = A>
inline constexpr int kPackWidth = 16 /
                                  static_cast<int>(sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));

template <int N, typename T>
__device__ __forceinline__ void LoadPack(const T* from, float (&to)[N]) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = ToFloat(pack.at[i]);
}

template <int N, typename T>
__device__ __forceinline__ void StorePack(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = FromFloat<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Like StorePack, to global memory, but always by one instruction: where the compiler merges
// similar code of several branches, it splits the packs of StorePack.
template <int N, typename T>
__device__ __forceinline__ void StorePackAtOnce(const float (&from)[N], T* to) {
#if defined(ZEROTH_CUDA_EMULATION)
  StorePack<N>(from, to);
#else
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = FromFloat<T>(from[i]);
  uint32_t words[sizeof(pack) / sizeof(uint32_t)];
  memcpy(words, &pack, sizeof(pack));
  static_assert(sizeof(pack) == 16 || sizeof(pack) == 8);
  if constexpr (sizeof(pack) == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  } else {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};\n" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words[0]), "r"(words[1])
                 : "memory");
  }
#endif
}

inline constexpr float kLog2E = 1.44269504088896340736f;

// Returns 2^x within 2 ulp; 0 below the smallest normal number.
__device__ __forceinline__ float FastExp2(float x) {
#if defined(ZEROTH_CUDA_EMULATION)
  return std::exp2(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
#endif
}

// Iterates over this thread's items of [0, count) in a grid-stride loop, as with MapShape's grids.
class ItemsOfThread {
 public:
  __device__ __forceinline__ explicit ItemsOfThread(int64_t count)
      : step_(int64_t{gridDim.x} * blockDim.x),
        item_(int64_t{blockIdx.x} * blockDim.x + threadIdx.x),
        count_(count) {}
  // It is its own iterator.
  __device__ __forceinline__ ItemsOfThread begin() const { return *this; }
  __device__ __forceinline__ int64_t end() const { return count_; }
  __device__ __forceinline__ int64_t operator*() const { return item_; }
  __device__ __forceinline__ void operator++() { item_ += step_; }
  __device__ __forceinline__ bool operator!=(int64_t end) const { return item_ < end; }

 private:
  int64_t step_;
  int64_t item_;
  int64_t count_;
};

}  // namespace zeroth::cuda
