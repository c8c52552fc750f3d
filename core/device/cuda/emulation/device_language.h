// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Implements kernel_language.h on the host.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "zeroth/core/device/cuda/emulation/simt.h"

// The address of the static character identifies the array within the block.
#define ZEROTH_SHARED(type, name, dimensions)                     \
  static char zeroth_shared_##name;                               \
  using ZerothShared_##name = type dimensions;                    \
  ZerothShared_##name& name = *static_cast<ZerothShared_##name*>( \
      ::zeroth::cuda::emulation::StaticShared(&zeroth_shared_##name, sizeof(ZerothShared_##name)))

#define ZEROTH_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::zeroth::cuda::emulation::DynamicShared())

#undef __shared__
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __global__
#define __global__
#undef __device__
#define __device__
#undef __grid_constant__
#define __grid_constant__
#undef __forceinline__
#define __forceinline__ inline
#undef __constant__
#define __constant__ static const

#define threadIdx (::zeroth::cuda::emulation::ThreadIndex())
#define blockIdx (::zeroth::cuda::emulation::BlockIndex())
#define blockDim (::zeroth::cuda::emulation::BlockDim())
#define gridDim (::zeroth::cuda::emulation::GridDim())
inline constexpr int warpSize = 32;

inline void __syncthreads() { ::zeroth::cuda::emulation::BlockBarrier(); }
inline void __syncwarp(unsigned = 0xffffffffu) { ::zeroth::cuda::emulation::WarpBarrier(); }
inline void __threadfence() { ::zeroth::cuda::emulation::Fence(); }
inline void __threadfence_block() { ::zeroth::cuda::emulation::Fence(); }

template <typename T>
T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  const unsigned self = ::zeroth::cuda::emulation::LaneIndex();
  const unsigned first = self / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return ::zeroth::cuda::emulation::WarpValues<T>(value).at(
      first + static_cast<unsigned>(lane) % static_cast<unsigned>(width));
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  const unsigned self = ::zeroth::cuda::emulation::LaneIndex();
  const unsigned other = self ^ static_cast<unsigned>(mask);
  const unsigned size = static_cast<unsigned>(width);
  return ::zeroth::cuda::emulation::WarpValues<T>(value).at(other / size > self / size ? self
                                                                                       : other);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32) {
  const unsigned self = ::zeroth::cuda::emulation::LaneIndex();
  const unsigned size = static_cast<unsigned>(width);
  return ::zeroth::cuda::emulation::WarpValues<T>(value).at(
      self % size + delta < size ? self + delta : self);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32) {
  const unsigned self = ::zeroth::cuda::emulation::LaneIndex();
  const unsigned size = static_cast<unsigned>(width);
  return ::zeroth::cuda::emulation::WarpValues<T>(value).at(self % size >= delta ? self - delta
                                                                                 : self);
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  const ::zeroth::cuda::emulation::WarpValues<int> votes(predicate);
  unsigned result = 0;
  for (unsigned lane = 0; lane < 32; ++lane) result |= (votes.at(lane) != 0 ? 1u : 0u) << lane;
  return result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == 0xffffffffu;
}

// Kernels of several ranks run on different host threads, so atomics must be real. As on a device,
// they order no other memory.
template <typename T, typename Act>
auto ZerothAtomic(T* address, Act act) {
  namespace emulation = ::zeroth::cuda::emulation;
  if constexpr (emulation::kRacesAreWatched) emulation::BeforeAtomic(address);
  const auto result = act();
  if constexpr (emulation::kRacesAreWatched) emulation::AfterAtomic(address);
  return result;
}
template <typename T>
T atomicAdd(T* address, T value) {
  static_assert(std::is_integral_v<T>);
  return ZerothAtomic(address,
                      [=] { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); });
}
template <typename T>
T atomicOr(T* address, T value) {
  return ZerothAtomic(address, [=] { return __atomic_fetch_or(address, value, __ATOMIC_RELAXED); });
}
template <typename T>
T atomicExch(T* address, T value) {
  return ZerothAtomic(address,
                      [=] { return __atomic_exchange_n(address, value, __ATOMIC_RELAXED); });
}
template <typename T>
T atomicCAS(T* address, T compare, T value) {
  return ZerothAtomic(address, [=]() mutable {
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return compare;
  });
}
template <typename T>
T atomicMax(T* address, T value) {
  return ZerothAtomic(address, [=] {
    T seen = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (seen < value && !__atomic_compare_exchange_n(address, &seen, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return seen;
  });
}
template <typename T>
T atomicMin(T* address, T value) {
  return ZerothAtomic(address, [=] {
    T seen = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (value < seen && !__atomic_compare_exchange_n(address, &seen, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return seen;
  });
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31u));
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  const double angle = static_cast<double>(x) * 3.14159265358979323846;
  *sine = static_cast<float>(std::sin(angle));
  *cosine = static_cast<float>(std::cos(angle));
}

template <typename To, typename From>
To ZerothBitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}
inline unsigned __float_as_uint(float x) { return ZerothBitCast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return ZerothBitCast<float>(x); }
inline int __float_as_int(float x) { return ZerothBitCast<int>(x); }
inline float __int_as_float(int x) { return ZerothBitCast<float>(x); }
inline long long __double_as_longlong(double x) { return ZerothBitCast<long long>(x); }
inline double __longlong_as_double(long long x) { return ZerothBitCast<double>(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(x) * y) >> 64);
}
