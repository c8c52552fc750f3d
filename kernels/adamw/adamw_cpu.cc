// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/adamw_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/adamw/low_precision-inl.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V ZeroIfSubnormal(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), hn::Set(d, 1.17549435e-38f)), x);
}

// Updates a parameter and its moments. Subtracts decay and step from the parameter together. A
// factor 1 - decay would be rounded to a multiple of 2^-24, which is a visible error in the decay
// if the learning rate is small.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void Update(D d, const AdamWCoefficients& c, V grad, V& param, V& m, V& v) {
  const V g = hn::Mul(grad, hn::Set(d, c.grad_scale));
  m = hn::MulAdd(hn::Set(d, c.beta1), m, hn::Mul(hn::Set(d, c.one_minus_beta1), g));
  v = hn::MulAdd(hn::Set(d, c.beta2), v, hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(g, g)));
  m = ZeroIfSubnormal(d, m);
  v = ZeroIfSubnormal(d, v);
  const V denominator = hn::MulAdd(hn::Sqrt(v), hn::Set(d, c.root_scale), hn::Set(d, c.eps));
  const V change =
      hn::MulAdd(hn::Set(d, c.decay), param, hn::Div(hn::Mul(hn::Set(d, c.step), m), denominator));
  param = hn::Sub(param, change);
}

// The lanes of a vector that hold elements: `count` lanes from lane `skip` on.
struct Lanes {
  size_t skip = 0;
  size_t count = 0;
};

template <class D, class T>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const T* from, const Lanes& lanes) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(buffer + lanes.skip, from, lanes.count * sizeof(T));
  return LoadElements(d, buffer);
}

template <class D, class T>
HWY_INLINE void StoreLanes(D d, hn::Vec<D> v, hn::Vec<hn::RebindToUnsigned<D>> draws, T* to,
                           const Lanes& lanes) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)];
  StoreRounded(d, v, draws, buffer);
  std::memcpy(to, buffer + lanes.skip, lanes.count * sizeof(T));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V UpperHalves(D, V draws) {
  return hn::ShiftRight<16>(draws);
}

// Updates elements [begin, end) of a call. P, G and M are the types of parameters, gradients and
// moments.
template <typename P, typename G, typename M>
HWY_INLINE void UpdatePiece(const AdamWRangeCall& call, int64_t begin, int64_t end) {
  constexpr bool kRounds = std::is_same_v<P, BFloat16> || std::is_same_v<M, BFloat16>;
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const size_t width = hn::Lanes(d);
  const AdamWCoefficients& c = call.coefficients;
  P* HWY_RESTRICT param = static_cast<P*>(call.param) + begin;
  const G* HWY_RESTRICT grad = static_cast<const G*>(call.grad) + begin;
  M* HWY_RESTRICT m = static_cast<M*>(call.m) + begin;
  M* HWY_RESTRICT v = static_cast<M*>(call.v) + begin;
  // Sets the draws for a vector whose lane 0 has index `first` in the parameter.
  const auto draw = [&](int64_t first, auto& moments, auto& params) HWY_ATTR {
    if constexpr (kRounds) Draw(d32, c.rounding, call.stream, first, moments, params);
  };
  const auto partial = [&](size_t at, const Lanes& lanes, int64_t first) HWY_ATTR {
    auto next_param = LoadLanes(d, param + at, lanes);
    auto next_m = LoadLanes(d, m + at, lanes);
    auto next_v = LoadLanes(d, v + at, lanes);
    Update(d, c, LoadLanes(d, grad + at, lanes), next_param, next_m, next_v);
    auto moment_draws = hn::Zero(d32), param_draws = hn::Zero(d32);
    draw(first, moment_draws, param_draws);
    StoreLanes(d, next_param, param_draws, param + at, lanes);
    StoreLanes(d, next_m, moment_draws, m + at, lanes);
    StoreLanes(d, next_v, UpperHalves(d32, moment_draws), v + at, lanes);
  };
  const size_t n = static_cast<size_t>(end - begin);
  const int64_t first = call.first_element + begin;
  size_t i = 0;
  // A pair of lanes shares its draws' block, so vectors must begin at an even index.
  if (kRounds && width > 1 && first % 2 != 0 && n > 0) {
    i = std::min(n, width - 1);
    partial(0, {1, i}, first - 1);
  }
  for (; i + width <= n; i += width) {
    auto next_param = LoadElements(d, param + i);
    auto next_m = LoadElements(d, m + i);
    auto next_v = LoadElements(d, v + i);
    Update(d, c, LoadElements(d, grad + i), next_param, next_m, next_v);
    auto moment_draws = hn::Zero(d32), param_draws = hn::Zero(d32);
    draw(first + static_cast<int64_t>(i), moment_draws, param_draws);
    StoreRounded(d, next_param, param_draws, param + i);
    StoreRounded(d, next_m, moment_draws, m + i);
    StoreRounded(d, next_v, UpperHalves(d32, moment_draws), v + i);
  }
  if (i < n) partial(i, {0, n - i}, first + static_cast<int64_t>(i));
}

// Updates one block with 8-bit moments. The scales depend on all new moments, which stay in the L1
// cache until the scales are known. Lanes past `n` are zeros and change no scale.
template <typename P, typename G>
HWY_INLINE void UpdateBlock(const AdamWRangeCall& call, int64_t begin, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t width = hn::Lanes(d);
  constexpr size_t kBlock = static_cast<size_t>(kMomentBlock);
  static_assert(kBlock % (HWY_MAX_BYTES / sizeof(float)) == 0);
  const AdamWCoefficients& c = call.coefficients;
  P* HWY_RESTRICT param = static_cast<P*>(call.param) + begin;
  const G* HWY_RESTRICT grad = static_cast<const G*>(call.grad) + begin;
  uint8_t* m_codes = static_cast<uint8_t*>(call.m) + begin;
  uint8_t* v_codes = static_cast<uint8_t*>(call.v) + begin;
  float* m_scale = call.m_scale + begin / kMomentBlock;
  float* v_scale = call.v_scale + begin / kMomentBlock;
  HWY_ALIGN uint8_t m_in[kBlock] = {};
  HWY_ALIGN uint8_t v_in[kBlock] = {};
  if (n < kBlock) {
    std::memcpy(m_in, m_codes, n);
    std::memcpy(v_in, v_codes, n);
  }
  const uint8_t* m_from = n < kBlock ? m_in : m_codes;
  const uint8_t* v_from = n < kBlock ? v_in : v_codes;
  HWY_ALIGN float m[kBlock];
  HWY_ALIGN float v[kBlock];
  HWY_ALIGN uint32_t moment_draws[kBlock];
  auto m_largest = hn::Zero(di);
  auto v_largest = hn::Zero(di);
  for (size_t i = 0; i < n; i += width) {
    const bool whole = i + width <= n;
    const Lanes lanes{0, n - i};
    auto next_param = whole ? LoadElements(d, param + i) : LoadLanes(d, param + i, lanes);
    auto next_m = DecodeMoments<FirstMomentCode>(d, m_from + i, *m_scale);
    auto next_v = DecodeMoments<SecondMomentCode>(d, v_from + i, *v_scale);
    Update(d, c, whole ? LoadElements(d, grad + i) : LoadLanes(d, grad + i, lanes), next_param,
           next_m, next_v);
    auto draws = hn::Zero(d32), param_draws = hn::Zero(d32);
    Draw(d32, c.rounding, call.stream, call.first_element + begin + static_cast<int64_t>(i), draws,
         param_draws);
    hn::Store(next_m, d, m + i);
    hn::Store(next_v, d, v + i);
    hn::Store(draws, d32, moment_draws + i);
    m_largest = hn::Max(m_largest, hn::BitCast(di, hn::Abs(next_m)));
    v_largest = hn::Max(v_largest, hn::BitCast(di, hn::Abs(next_v)));
    if (whole) {
      StoreRounded(d, next_param, param_draws, param + i);
    } else {
      StoreLanes(d, next_param, param_draws, param + i, lanes);
    }
  }
  *m_scale = MomentScale<FirstMomentCode>(
      static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, m_largest))));
  *v_scale = MomentScale<SecondMomentCode>(
      static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, v_largest))));
  const float m_inverse = 1.0f / *m_scale;
  const float v_inverse = 1.0f / *v_scale;
  uint8_t* m_to = n < kBlock ? m_in : m_codes;
  uint8_t* v_to = n < kBlock ? v_in : v_codes;
  for (size_t i = 0; i < n; i += width) {
    const auto draws = hn::Load(d32, moment_draws + i);
    const auto lower = hn::BitCast(di, hn::And(draws, hn::Set(d32, uint32_t{0xffffu})));
    const auto upper = hn::BitCast(di, hn::ShiftRight<16>(draws));
    EncodeMoments<FirstMomentCode>(d, hn::Load(d, m + i), lower, m_inverse, m_to + i);
    EncodeMoments<SecondMomentCode>(d, hn::Load(d, v + i), upper, v_inverse, v_to + i);
  }
  if (n < kBlock) {
    std::memcpy(m_codes, m_in, n);
    std::memcpy(v_codes, v_in, n);
  }
}

template <typename P, typename G>
HWY_INLINE void UpdateBlocks(const AdamWRangeCall& call, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end; at += kMomentBlock) {
    UpdateBlock<P, G>(call, at, static_cast<size_t>(std::min(kMomentBlock, end - at)));
  }
}

template <typename P>
HWY_INLINE void UpdateFrom(const AdamWRangeCall& call, int64_t begin, int64_t end) {
  WithElementType(call.types.grad, [&]<typename G>(G) HWY_ATTR {
    switch (call.types.moment) {
      case DType::kUInt8:
        return UpdateBlocks<P, G>(call, begin, end);
      case DType::kBFloat16:
        return UpdatePiece<P, G, BFloat16>(call, begin, end);
      default:
        return UpdatePiece<P, G, float>(call, begin, end);
    }
  });
}

// HWY_EXPORT needs a function that is not a template.
void AdamWPiece(const AdamWRangeCall& call, int64_t begin, int64_t end) {
  if (call.types.param == DType::kBFloat16) return UpdateFrom<BFloat16>(call, begin, end);
  UpdateFrom<float>(call, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

namespace {

HWY_EXPORT(AdamWPiece);

// Returns the coefficients that apply now, including the factor on the device.
AdamWCoefficients CurrentCoefficients(const AdamWRangeCall& range) {
  AdamWCoefficients coefficients =
      range.on_device != nullptr ? *range.on_device : range.coefficients;
  if (range.grad_factor != nullptr) coefficients.grad_scale *= *range.grad_factor;
  return coefficients;
}

// Makes one pass over memory in one parallel loop, in pieces of one size even if ranges differ.
absl::Status AdamW(const AdamWCall& call, CpuKernels&) {
  std::vector<AdamWRangeCall> ranges;
  std::vector<int64_t> lengths;
  ranges.reserve(call.ranges.size());
  lengths.reserve(call.ranges.size());
  // Lengths are rounded up to whole blocks, so that no piece ends inside a block.
  static_assert(kElementGrain % kMomentBlock == 0);
  for (AdamWRangeCall range : call.ranges) {
    range.coefficients = CurrentCoefficients(range);
    if (std::isnan(range.coefficients.grad_scale)) continue;  // a step to be skipped
    ranges.push_back(range);
    lengths.push_back((range.count + kMomentBlock - 1) / kMomentBlock * kMomentBlock);
  }
  const auto piece = HWY_DYNAMIC_DISPATCH(AdamWPiece);
  ParallelForRanges(lengths, kElementGrain, [&](size_t i, int64_t begin, int64_t end) {
    piece(ranges[i], begin, std::min(end, ranges[i].count));
  });
  return absl::OkStatus();
}
const OnCpu<AdamW> adamw;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
