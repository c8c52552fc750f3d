// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Vectors of fp32 in registers, fp32, bf16 or fp16 in memory: a kernel written over the element
// type of its pointers computes in fp32 and rounds what it stores, once, to nearest even.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_CPU_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_CPU_ELEMENT_INL_H_
#undef ZEROTH_KERNELS_CPU_ELEMENT_INL_H_
#else
#define ZEROTH_KERNELS_CPU_ELEMENT_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// function(T()) for the type of elements that `dtype` names: fp32, bf16 or fp16, which the
// operation's check has made sure of. For what HWY_EXPORT names, which can be no template.
template <class Function>
HWY_INLINE auto WithElementType(DType dtype, const Function& function) {
  if (dtype == DType::kBFloat16) return function(BFloat16());
  if (dtype == DType::kFloat16) return function(Float16());
  return function(float());
}

// function(T(), U()) for the types of a call's operands and of its results, which share their
// 16-bit type if both have one.
template <class Function>
HWY_INLINE auto WithElementTypes(DType dtype, DType other, const Function& function) {
  if (dtype == DType::kFloat32) {
    if (other == DType::kBFloat16) return function(float(), BFloat16());
    if (other == DType::kFloat16) return function(float(), Float16());
    return function(float(), float());
  }
  if (dtype == DType::kBFloat16) {
    if (other == DType::kBFloat16) return function(BFloat16(), BFloat16());
    return function(BFloat16(), float());
  }
  if (other == DType::kFloat16) return function(Float16(), Float16());
  return function(Float16(), float());
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const BFloat16* from) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const Float16* from) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, Float16Format::Widen(d32, hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}

// The upper halves of v's lanes, rounded to nearest even, in the lower halves.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundToBFloat16(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  // Rounding could carry a NaN's payload into infinity: truncate and make it quiet.
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded);
}

// Through Highway's integers: its own demotion to bf16 truncates.
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, BFloat16* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, RoundToBFloat16(d, v))), d16,
             reinterpret_cast<uint16_t*>(to));
}

template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D, Float16* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, Float16Format::Narrow(d32, hn::BitCast(d32, v)))),
             d16, reinterpret_cast<uint16_t*>(to));
}

// The first `count` lanes from memory, zeros in the others; reads nothing beyond. Arrays are
// aligned because GCC writes them with aligned stores even where the address sanitizer lays out the
// frame.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadFirstElements(D d, const T* from, size_t count) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return LoadElements(d, lanes);
}

template <class D, class T>
HWY_INLINE void StoreFirstElements(hn::Vec<D> v, D d, T* to, size_t count) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(float)];
  StoreElements(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
