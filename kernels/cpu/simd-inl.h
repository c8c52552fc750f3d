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

#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = op(d, in[i]...) for i in [0, n), computed in fp32; arrays are fp32, bf16 or fp16, each
// its own. `out` may be one of the inputs, but not overlap one otherwise.
template <class Op, typename Out, typename... In>
HWY_INLINE void Transform(size_t n, Out* out, const Op& op, const In*... in) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    StoreElements(op(d, LoadElements(d, in + i)...), d, out + i);
  }
  if (i < n) {
    StoreFirstElements(op(d, LoadFirstElements(d, in + i, n - i)...), d, out + i, n - i);
  }
}

// acc = op(d, acc, in[i]...) over i in [0, n) in several accumulators that start at zero, then
// their sum.
template <class Op, typename... In>
HWY_INLINE float Reduce(size_t n, const Op& op, const In*... in) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto acc0 = hn::Zero(d);
  auto acc1 = hn::Zero(d);
  auto acc2 = hn::Zero(d);
  auto acc3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    acc0 = op(d, acc0, LoadElements(d, in + i)...);
    acc1 = op(d, acc1, LoadElements(d, in + i + lanes)...);
    acc2 = op(d, acc2, LoadElements(d, in + i + 2 * lanes)...);
    acc3 = op(d, acc3, LoadElements(d, in + i + 3 * lanes)...);
  }
  for (; i + lanes <= n; i += lanes) acc0 = op(d, acc0, LoadElements(d, in + i)...);
  if (i < n) {
    const auto valid = hn::FirstN(d, n - i);
    acc1 = hn::IfThenElse(valid, op(d, acc1, LoadFirstElements(d, in + i, n - i)...), acc1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(acc0, acc1), hn::Add(acc2, acc3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
