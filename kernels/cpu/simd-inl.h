// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Loops over arrays in vectors. The last, partial vector goes through the same vector operations as
// the others, so that an element's result does not depend on its place.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_CPU_SIMD_INL_H_
#undef ZEROTH_KERNELS_CPU_SIMD_INL_H_
#else
#define ZEROTH_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first `count` lanes from memory, zeros in the others; reads nothing beyond. Through the
// stack, because masked loads of the older targets touch the whole vector.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* HWY_RESTRICT from, size_t count) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return hn::Load(d, lanes);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* HWY_RESTRICT to, size_t count) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// out[i] = op(d, in[i]...) for i in [0, n). `out` may be one of the inputs, but not overlap one
// otherwise.
template <class Op, class... In>
HWY_INLINE void Transform(size_t n, float* out, const Op& op, const In*... in) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(op(d, hn::LoadU(d, in + i)...), d, out + i);
  }
  if (i < n) {
    StoreFirst(op(d, LoadFirst(d, in + i, n - i)...), d, out + i, n - i);
  }
}

// acc = op(d, acc, in[i]...) over i in [0, n) in several accumulators that start at zero, then
// their sum.
template <class Op, class... In>
HWY_INLINE float Reduce(size_t n, const Op& op, const In*... in) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto acc0 = hn::Zero(d);
  auto acc1 = hn::Zero(d);
  auto acc2 = hn::Zero(d);
  auto acc3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    acc0 = op(d, acc0, hn::LoadU(d, in + i)...);
    acc1 = op(d, acc1, hn::LoadU(d, in + i + lanes)...);
    acc2 = op(d, acc2, hn::LoadU(d, in + i + 2 * lanes)...);
    acc3 = op(d, acc3, hn::LoadU(d, in + i + 3 * lanes)...);
  }
  for (; i + lanes <= n; i += lanes) acc0 = op(d, acc0, hn::LoadU(d, in + i)...);
  if (i < n) {
    const auto valid = hn::FirstN(d, n - i);
    acc1 = hn::IfThenElse(valid, op(d, acc1, LoadFirst(d, in + i, n - i)...), acc1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(acc0, acc1), hn::Add(acc2, acc3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
