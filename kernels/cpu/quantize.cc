// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/quantize.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "zeroth/kernels/cpu/by_element_type.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

constexpr int32_t kMagnitudeBits = 0x7fffffff;
constexpr int32_t kInfinityBits = 0x7f800000;
// A tree over any number of pieces that fits in memory is no deeper.
constexpr int kMostLevels = 32;

// The largest magnitude, as the bits of a float: these order as integers do, with NaN on top.
template <typename T>
HWY_INLINE int32_t LargestMagnitude(size_t n, const T* values) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(di, kMagnitudeBits);
  auto largest = hn::Zero(di);
  for (size_t i = 0; i < n; i += lanes) {
    const auto x =
        i + lanes <= n ? LoadElements(d, values + i) : LoadFirstElements(d, values + i, n - i);
    largest = hn::Max(largest, hn::And(hn::BitCast(di, x), mask));
  }
  return hn::GetLane(hn::MaxOfLanes(di, largest));
}

template <class D>
HWY_INLINE void StoreCodes(D d, hn::Vec<D> x, int8_t* to, size_t count) {
  const hn::Rebind<int8_t, D> d8;
  const auto codes = hn::DemoteTo(d8, hn::NearestInt(x));
  if (count == hn::Lanes(d)) {
    hn::StoreU(codes, d8, to);
    return;
  }
  HWY_ALIGN int8_t lanes[HWY_MAX_BYTES];
  hn::StoreU(codes, d8, lanes);
  std::memcpy(to, lanes, count);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadCodes(D d, const int8_t* from, size_t count) {
  const hn::Rebind<int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  if (count == hn::Lanes(d)) {
    return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, from)));
  }
  HWY_ALIGN int8_t lanes[HWY_MAX_BYTES] = {};
  std::memcpy(lanes, from, count);
  return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, lanes)));
}

template <typename T>
HWY_INLINE float QuantizeBlock(size_t n, const T* values, int8_t* codes) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const int32_t bits = LargestMagnitude(n, values);
  float largest;
  std::memcpy(&largest, &bits, sizeof(largest));
  if (bits >= kInfinityBits || largest < QuantizedBlocks::kSmallestMagnitude) {
    std::memset(codes, 0, n);
    return bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const auto inverse = hn::Set(d, QuantizedBlocks::kMostCode / largest);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    const auto x =
        count == lanes ? LoadElements(d, values + i) : LoadFirstElements(d, values + i, count);
    StoreCodes(d, hn::Mul(x, inverse), codes + i, count);
  }
  return largest / QuantizedBlocks::kMostCode;
}

template <typename T>
HWY_INLINE void DequantizeBlock(size_t n, const int8_t* codes, float scale, T* values) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    const auto x = hn::Mul(LoadCodes(d, codes + i, count), factor);
    if (count == lanes) {
      StoreElements(x, d, values + i);
    } else {
      StoreFirstElements(x, d, values + i, count);
    }
  }
}

// One block of every piece: sums wait on a stack until one of the same number of terms joins them,
// which is the fixed tree over pieces.
template <typename T>
HWY_INLINE void SumBlock(size_t n, const QuantizedBlocks& shape, int64_t pieces, int64_t block,
                         const uint8_t* quantized, float factor, bool accumulate, T* sum) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    V waiting[kMostLevels];
    int depth = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const uint8_t* const base = quantized + piece * shape.bytes();
      float scale;
      std::memcpy(&scale,
                  base + shape.scales_offset() + block * static_cast<int64_t>(sizeof(scale)),
                  sizeof(scale));
      const int8_t* const codes =
          reinterpret_cast<const int8_t*>(base) + block * shape.block + static_cast<int64_t>(i);
      V x = hn::Mul(LoadCodes(d, codes, count), hn::Set(d, scale));
      for (int64_t terms = piece; (terms & 1) != 0; terms >>= 1) x = hn::Add(waiting[--depth], x);
      waiting[depth++] = x;
    }
    V total = waiting[--depth];
    while (depth > 0) total = hn::Add(waiting[--depth], total);
    total = hn::Mul(total, hn::Set(d, factor));
    if (accumulate) total = hn::Add(LoadFirstElements(d, sum + i, count), total);
    StoreFirstElements(total, d, sum + i, count);
  }
}

// HWY_EXPORT takes the name of a function.
float QuantizeBlockF32(size_t n, const void* values, int8_t* codes) {
  return QuantizeBlock(n, static_cast<const float*>(values), codes);
}
float QuantizeBlockBF16(size_t n, const void* values, int8_t* codes) {
  return QuantizeBlock(n, static_cast<const BFloat16*>(values), codes);
}
float QuantizeBlockF16(size_t n, const void* values, int8_t* codes) {
  return QuantizeBlock(n, static_cast<const Float16*>(values), codes);
}
void DequantizeBlockF32(size_t n, const int8_t* codes, float scale, void* values) {
  DequantizeBlock(n, codes, scale, static_cast<float*>(values));
}
void DequantizeBlockBF16(size_t n, const int8_t* codes, float scale, void* values) {
  DequantizeBlock(n, codes, scale, static_cast<BFloat16*>(values));
}
void DequantizeBlockF16(size_t n, const int8_t* codes, float scale, void* values) {
  DequantizeBlock(n, codes, scale, static_cast<Float16*>(values));
}
void SumBlockF32(size_t n, const QuantizedBlocks& shape, int64_t pieces, int64_t block,
                 const uint8_t* quantized, float factor, bool accumulate, void* sum) {
  SumBlock(n, shape, pieces, block, quantized, factor, accumulate, static_cast<float*>(sum));
}
void SumBlockBF16(size_t n, const QuantizedBlocks& shape, int64_t pieces, int64_t block,
                  const uint8_t* quantized, float factor, bool accumulate, void* sum) {
  SumBlock(n, shape, pieces, block, quantized, factor, accumulate, static_cast<BFloat16*>(sum));
}
void SumBlockF16(size_t n, const QuantizedBlocks& shape, int64_t pieces, int64_t block,
                 const uint8_t* quantized, float factor, bool accumulate, void* sum) {
  SumBlock(n, shape, pieces, block, quantized, factor, accumulate, static_cast<Float16*>(sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(QuantizeBlockF32);
HWY_EXPORT(QuantizeBlockBF16);
HWY_EXPORT(QuantizeBlockF16);
HWY_EXPORT(DequantizeBlockF32);
HWY_EXPORT(DequantizeBlockBF16);
HWY_EXPORT(DequantizeBlockF16);
HWY_EXPORT(SumBlockF32);
HWY_EXPORT(SumBlockBF16);
HWY_EXPORT(SumBlockF16);

namespace {

// body(block, first, count) for every block, several to a piece of work.
template <typename Body>
void ForEachBlock(const QuantizedBlocks& shape, const Body& body) {
  ParallelFor(shape.blocks(), RowGrain(shape.block), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * shape.block;
      body(block, first, static_cast<size_t>(std::min(shape.block, shape.count - first)));
    }
  });
}

}  // namespace

void Quantize(const QuantizedBlocks& shape, DType dtype, const void* values, uint8_t* quantized) {
  const auto quantize = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(QuantizeBlockF32),
                                      HWY_DYNAMIC_DISPATCH(QuantizeBlockBF16),
                                      HWY_DYNAMIC_DISPATCH(QuantizeBlockF16));
  const int64_t element = static_cast<int64_t>(SizeOf(dtype));
  float* const scales = reinterpret_cast<float*>(quantized + shape.scales_offset());
  ForEachBlock(shape, [&](int64_t block, int64_t first, size_t count) {
    scales[block] = quantize(count, static_cast<const char*>(values) + first * element,
                             reinterpret_cast<int8_t*>(quantized) + first);
  });
  // What lies between travels too.
  std::fill(quantized + shape.count, quantized + shape.scales_offset(), uint8_t{0});
  std::fill(reinterpret_cast<uint8_t*>(scales + shape.blocks()), quantized + shape.bytes(),
            uint8_t{0});
}

void Dequantize(const QuantizedBlocks& shape, int64_t pieces, const uint8_t* quantized, DType dtype,
                void* values) {
  const auto dequantize = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(DequantizeBlockF32),
                                        HWY_DYNAMIC_DISPATCH(DequantizeBlockBF16),
                                        HWY_DYNAMIC_DISPATCH(DequantizeBlockF16));
  const int64_t element = static_cast<int64_t>(SizeOf(dtype));
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const uint8_t* const from = quantized + piece * shape.bytes();
    char* const to = static_cast<char*>(values) + piece * shape.count * element;
    const float* const scales = reinterpret_cast<const float*>(from + shape.scales_offset());
    ForEachBlock(shape, [&](int64_t block, int64_t first, size_t count) {
      dequantize(count, reinterpret_cast<const int8_t*>(from) + first, scales[block],
                 to + first * element);
    });
  }
}

void SumQuantized(const QuantizedBlocks& shape, int64_t pieces, const uint8_t* quantized, bool mean,
                  bool accumulate, DType dtype, void* sum) {
  const auto add =
      ByElementType(dtype, HWY_DYNAMIC_DISPATCH(SumBlockF32), HWY_DYNAMIC_DISPATCH(SumBlockBF16),
                    HWY_DYNAMIC_DISPATCH(SumBlockF16));
  const int64_t element = static_cast<int64_t>(SizeOf(dtype));
  const float factor = mean ? 1.0f / static_cast<float>(pieces) : 1.0f;
  ForEachBlock(shape, [&](int64_t block, int64_t first, size_t count) {
    add(count, shape, pieces, block, quantized, factor, accumulate,
        static_cast<char*>(sum) + first * element);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
