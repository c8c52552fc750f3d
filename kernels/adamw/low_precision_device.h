// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Device versions of the draws of rounding.h and of the codes of moment_codes.h.

#pragma once

#include <cstdint>
#include <type_traits>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/adamw/moment_codes.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/cuda/elements.h"

namespace zeroth::cuda {

// The Philox words of elements 2 * block and 2 * block + 1 of a stream.
struct PairDraws {
  uint32_t moments[2];  // lower half: first moment; upper half: second
  uint32_t params[2];   // lower half: parameter
};

__device__ __forceinline__ PairDraws DrawPair(const RoundingKey& key, uint64_t stream,
                                              uint64_t block) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  constexpr int kRounds = 10;
  uint32_t c0 = static_cast<uint32_t>(block);
  uint32_t c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream);
  uint32_t c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = key.low;
  uint32_t k1 = key.high;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = kMultiplier0 * c0;
    const uint64_t p1 = kMultiplier1 * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {{c0, c1}, {c2, c3}};
}

// Returns `x` rounded to T by the lower half of `draw`, as a float. fp32 is not rounded. Has no
// branch, around which the compiler would store packs element by element.
template <typename T>
__device__ __forceinline__ float RoundBy(float x, uint32_t draw) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16>);
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    const uint32_t bits = __float_as_uint(x) + (draw & 0xffffu);
    return x != x ? x : __uint_as_float(bits & 0xffff0000u);
  }
}

// Returns 2^exponent.
__device__ __forceinline__ float PowerOfTwo(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

template <typename Code>
__device__ __forceinline__ float DecodeMoment(uint8_t code, float scale) {
  const uint32_t magnitude = Code::kSigned ? code & 0x7fu : code;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Code::kTopExponent) << 23;
  const float normal = __uint_as_float((magnitude << Code::kDroppedBits) + kRebias);
  const float subnormal = __fmul_rn(static_cast<float>(magnitude),
                                    PowerOfTwo(1 - Code::kTopExponent - Code::kMantissaBits));
  const float value = magnitude < Code::kSmallestNormal ? subnormal : normal;
  const uint32_t sign = Code::kSigned ? static_cast<uint32_t>(code & 0x80u) << 24 : 0u;
  return __fmul_rn(__uint_as_float(__float_as_uint(value) | sign), scale);
}

// Returns the scale of a block. `largest` is its largest magnitude, as the bits of a float.
template <typename Code>
__device__ __forceinline__ float MomentScale(uint32_t largest) {
  const int exponent = static_cast<int>((largest + ((1u << Code::kDroppedBits) - 1)) >> 23);
  if (exponent > Code::kGreatestScale) return __uint_as_float(0x7fc00000u);
  return PowerOfTwo((exponent > Code::kLeastScale ? exponent : Code::kLeastScale) - 127);
}

// Returns the code of `value`. `draw` is below 2^16; `inverse` is 1 / scale.
template <typename Code>
__device__ __forceinline__ uint8_t EncodeMoment(float value, uint32_t draw, float inverse) {
  const float ratio = __fmul_rn(fabsf(value), inverse);
  uint32_t code;
  if (ratio < PowerOfTwo(1 - Code::kTopExponent)) {
    const float steps = __fmul_rn(ratio, PowerOfTwo(Code::kTopExponent - 1 + Code::kMantissaBits));
    code = static_cast<uint32_t>(
        __fadd_rn(steps, __fmul_rn(static_cast<float>(draw), PowerOfTwo(-16))));
  } else {
    constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Code::kTopExponent)
                                 << Code::kMantissaBits;
    const uint32_t sum = __float_as_uint(ratio) + (draw << (Code::kDroppedBits - 16));
    code = (sum >> Code::kDroppedBits) - kRebias;
  }
  if (Code::kSigned) {
    code |= __float_as_uint(value) >> 31 << 7;
  } else if (value > 0.0f && code == 0) {
    code = 1;
  }
  return static_cast<uint8_t>(code);
}

}  // namespace zeroth::cuda
