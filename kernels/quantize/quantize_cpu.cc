// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/quantize/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize/quantize_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

constexpr uint32_t kInfinityBits = 0x7f800000;
// Deep enough for a tree over more pieces than fit into memory.
constexpr int kMostLevels = 32;

template <class D>
HWY_INLINE void StoreCodes(D, hn::Vec<D> x, int8_t* to, size_t count) {
  const hn::Rebind<int8_t, D> d8;
  StorePlain(hn::DemoteTo(d8, hn::NearestInt(x)), d8, to, count);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadCodes(D d, const int8_t* from, size_t count) {
  const hn::Rebind<int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  return hn::ConvertTo(d, hn::PromoteTo(di, LoadPlain(d8, from, count)));
}

template <typename T>
HWY_INLINE float QuantizeBlock(size_t n, const T* values, int8_t* codes) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const uint32_t bits = LargestMagnitude(n, values);
  const float largest = std::bit_cast<float>(bits);
  if (bits >= kInfinityBits || largest < QuantizedBlocks::kSmallestMagnitude) {
    std::memset(codes, 0, n);
    return bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const auto inverse = hn::Set(d, QuantizedBlocks::kMostCode / largest);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    const auto x = LoadUpTo(d, values + i, count);
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
    StoreUpTo(hn::Mul(LoadCodes(d, codes + i, count), factor), d, values + i, count);
  }
}

// Sums one block of every piece along the fixed tree: a sum waits on a stack until another sum of
// as many terms joins it.
template <typename T>
HWY_INLINE void SumBlock(size_t n, const QuantizedBlocks& shape, int64_t pieces, int64_t block,
                         const uint8_t* quantized, float factor, bool accumulate, T* sum) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    HWY_ALIGN float waiting[kMostLevels * HWY_MAX_BYTES / sizeof(float)];
    float* top = waiting;
    const auto pop = [&]() HWY_ATTR { return hn::Load(d, top -= lanes); };
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const uint8_t* const base = quantized + piece * shape.bytes();
      float scale;
      std::memcpy(&scale,
                  base + shape.scales_offset() + block * static_cast<int64_t>(sizeof(scale)),
                  sizeof(scale));
      const int8_t* const codes =
          reinterpret_cast<const int8_t*>(base) + block * shape.block + static_cast<int64_t>(i);
      V x = hn::Mul(LoadCodes(d, codes, count), hn::Set(d, scale));
      for (int64_t terms = piece; (terms & 1) != 0; terms >>= 1) x = hn::Add(pop(), x);
      hn::Store(x, d, top);
      top += lanes;
    }
    V total = pop();
    while (top > waiting) total = hn::Add(pop(), total);
    total = hn::Mul(total, hn::Set(d, factor));
    if (accumulate) total = hn::Add(LoadFirstElements(d, sum + i, count), total);
    StoreFirstElements(total, d, sum + i, count);
  }
}

// Calls body(block, first, count) for blocks [begin, end).
template <class Body>
HWY_INLINE void ForBlocks(const QuantizedBlocks& shape, int64_t begin, int64_t end,
                          const Body& body) {
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * shape.block;
    body(block, first, static_cast<size_t>(std::min(shape.block, shape.count - first)));
  }
}

void QuantizeBlocks(const QuantizeCall& call, int64_t begin, int64_t end) {
  float* const scales = reinterpret_cast<float*>(call.quantized + call.shape.scales_offset());
  int8_t* const codes = reinterpret_cast<int8_t*>(call.quantized);
  WithElementType(call.dtype, [&](auto element) HWY_ATTR {
    const auto* values = static_cast<const decltype(element)*>(call.values);
    ForBlocks(call.shape, begin, end, [&](int64_t block, int64_t first, size_t count) HWY_ATTR {
      scales[block] = QuantizeBlock(count, values + first, codes + first);
    });
  });
}

void DequantizeBlocks(const DequantizeCall& call, int64_t piece, int64_t begin, int64_t end) {
  const uint8_t* const from = call.quantized + piece * call.shape.bytes();
  const float* const scales = reinterpret_cast<const float*>(from + call.shape.scales_offset());
  const int8_t* const codes = reinterpret_cast<const int8_t*>(from);
  WithElementType(call.dtype, [&](auto element) HWY_ATTR {
    auto* values = static_cast<decltype(element)*>(call.values) + piece * call.shape.count;
    ForBlocks(call.shape, begin, end, [&](int64_t block, int64_t first, size_t count) HWY_ATTR {
      DequantizeBlock(count, codes + first, scales[block], values + first);
    });
  });
}

void SumBlocks(const SumQuantizedCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&](auto element) HWY_ATTR {
    auto* sum = static_cast<decltype(element)*>(call.sum);
    ForBlocks(call.shape, begin, end, [&](int64_t block, int64_t first, size_t count) HWY_ATTR {
      SumBlock(count, call.shape, call.pieces, block, call.quantized, call.factor, call.accumulate,
               sum + first);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(QuantizeBlocks);
HWY_EXPORT(DequantizeBlocks);
HWY_EXPORT(SumBlocks);

absl::Status Quantize(const QuantizeCall& call, CpuKernels&) {
  const QuantizedBlocks& shape = call.shape;
  // The gaps after codes and scales are sent, too, so they are cleared.
  std::fill(call.quantized + shape.count, call.quantized + shape.scales_offset(), uint8_t{0});
  std::fill(
      call.quantized + shape.scales_offset() + shape.blocks() * static_cast<int64_t>(sizeof(float)),
      call.quantized + shape.bytes(), uint8_t{0});
  return ForRows(shape.blocks(), shape.block, call, HWY_DYNAMIC_DISPATCH(QuantizeBlocks));
}
const OnCpu<Quantize> quantize;

absl::Status Dequantize(const DequantizeCall& call, CpuKernels&) {
  const auto dequantize_blocks = HWY_DYNAMIC_DISPATCH(DequantizeBlocks);
  for (int64_t piece = 0; piece < call.pieces; ++piece) {
    ParallelFor(
        call.shape.blocks(), RowGrain(call.shape.block),
        [&](int64_t, int64_t begin, int64_t end) { dequantize_blocks(call, piece, begin, end); });
  }
  return absl::OkStatus();
}
const OnCpu<Dequantize> dequantize;

absl::Status SumQuantized(const SumQuantizedCall& call, CpuKernels&) {
  return ForRows(call.shape.blocks(), call.shape.block, call, HWY_DYNAMIC_DISPATCH(SumBlocks));
}
const OnCpu<SumQuantized> sum_quantized;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
