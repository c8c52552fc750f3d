// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Loads and stores that convert: registers hold vectors of fp32, and memory holds fp32, bf16 or
// fp16. A kernel that is a template over the element type computes in fp32 and rounds its results
// once, to nearest even.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_CPU_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_CPU_ELEMENT_INL_H_
#undef ZEROTH_KERNELS_CPU_ELEMENT_INL_H_
#else
#define ZEROTH_KERNELS_CPU_ELEMENT_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/element-inl.h"

// Inlines lambdas that take vectors by reference. In a call, the vectors would lie in memory.
#undef ZEROTH_INLINE_LAMBDA
#define ZEROTH_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls function(T()) for the element type that `dtype` names: fp32, bf16 or fp16, which the
// operation has checked. For functions that HWY_EXPORT names, which cannot be templates.
template <class Function>
HWY_INLINE auto WithElementType(DType dtype, const Function& function) {
  if (dtype == DType::kBFloat16) return function(BFloat16());
  if (dtype == DType::kFloat16) return function(Float16());
  return function(float());
}

// Calls function(T(), U()) for the types of a call's operands and results. If both are 16-bit
// types, they are the same.
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

using ::zeroth::HWY_NAMESPACE::LoadElements;
using ::zeroth::HWY_NAMESPACE::StoreElements;

// Loads the first `count` lanes, with zeros in the others, and reads nothing beyond. The array is
// aligned explicitly because GCC writes it with aligned stores even where the address sanitizer
// lays out the frame.
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

// Load and store a vector, or its first `count` lanes. LoadLanes and StoreLanes know at compile
// time whether the vector is whole; LoadUpTo and StoreUpTo know it at run time.
template <bool kWhole, class D, class T>
HWY_INLINE hn::Vec<D> LoadLanes(D d, const T* from, size_t count) {
  if constexpr (kWhole) {
    return LoadElements(d, from);
  } else {
    return LoadFirstElements(d, from, count);
  }
}
template <bool kWhole, class D, class T>
HWY_INLINE void StoreLanes(hn::Vec<D> v, D d, T* to, size_t count) {
  if constexpr (kWhole) {
    StoreElements(v, d, to);
  } else {
    StoreFirstElements(v, d, to, count);
  }
}
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadUpTo(D d, const T* from, size_t count) {
  return count == hn::Lanes(d) ? LoadElements(d, from) : LoadFirstElements(d, from, count);
}
template <class D, class T>
HWY_INLINE void StoreUpTo(hn::Vec<D> v, D d, T* to, size_t count) {
  count == hn::Lanes(d) ? StoreElements(v, d, to) : StoreFirstElements(v, d, to, count);
}

// Load and store a vector of any lane type without conversion, or its first `count` lanes.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadPlain(D d, const T* from, size_t count) {
  if (count == hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return hn::LoadU(d, lanes);
}
template <class D, typename T>
HWY_INLINE void StorePlain(hn::Vec<D> v, D d, T* to, size_t count) {
  if (count == hn::Lanes(d)) return hn::StoreU(v, d, to);
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::StoreU(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// Calls body(v...) with `kCount` vectors, the i-th initialised to init(i). Takes the place of an
// array of vectors, which SVE does not have: its vectors have no size at compile time. `body` may
// change them.
template <size_t kCount, class Init, class Body, class... Vectors>
HWY_INLINE void WithVectors(const Init& init, const Body& body, Vectors&... vectors) {
  if constexpr (sizeof...(vectors) == kCount) {
    body(vectors...);
  } else {
    auto next = init(sizeof...(vectors));
    WithVectors<kCount>(init, body, vectors..., next);
  }
}

// Calls body(i, v) with each of the vectors and its index as an integral_constant, in order.
template <class Body, class... Vectors>
HWY_INLINE void ForEachVector(const Body& body, Vectors&... vectors) {
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) ZEROTH_INLINE_LAMBDA {
    (body(std::integral_constant<size_t, kIndex>(), vectors), ...);
  }
  (std::index_sequence_for<Vectors...>());
}

// Returns the vector of index `kIndex`.
template <size_t kIndex, class First, class... Rest>
HWY_INLINE auto& VectorAt(First& first, Rest&... rest) {
  if constexpr (kIndex == 0) {
    return first;
  } else {
    return VectorAt<kIndex - 1>(rest...);
  }
}

// Loops over arrays. The last, partial vector passes through the same vector operations as the
// others, so that an element's result does not depend on its place.

// Calls op(d, i, whole, count) for every vector of n elements: `count` of them from i on.
template <class Op>
HWY_INLINE void ForVectors(size_t n, const Op& op) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) op(d, i, std::true_type(), lanes);
  if (i < n) op(d, i, std::false_type(), n - i);
}

// out[i] = op(d, in[i]...) for i in [0, n), computed in fp32. Each array is fp32, bf16 or fp16.
// `out` may be one of the inputs, but must not overlap one otherwise.
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

// out[i] = in[i], converted.
template <typename Out, typename In>
HWY_INLINE void Convert(size_t n, Out* out, const In* in) {
  Transform(
      n, out, [](auto, auto v) HWY_ATTR { return v; }, in);
}

// Applies Transform to [begin, end) of arrays that all have the element type that `dtype` names.
template <class Op, typename... In>
HWY_INLINE void TransformPiece(DType dtype, int64_t begin, int64_t end, void* out, const Op& op,
                               const In*... in) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    Transform(static_cast<size_t>(end - begin), static_cast<T*>(out) + begin, op,
              (static_cast<const T*>(in) + begin)...);
  });
}

// Computes acc = op(d, acc, in[i]...) over i in [0, n) in several accumulators that start at zero,
// and returns their sum.
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

template <typename T>
HWY_INLINE float Sum(size_t n, const T* x) {
  return Reduce(
      n, [](auto, auto sum, auto v) HWY_ATTR { return hn::Add(sum, v); }, x);
}

// Returns the sum of a[i] * b[i].
template <typename T, typename U>
HWY_INLINE float Dot(size_t n, const T* a, const U* b) {
  return Reduce(
      n, [](auto, auto sum, auto x, auto y) HWY_ATTR { return hn::MulAdd(x, y, sum); }, a, b);
}

// Returns the largest of x, or -infinity if there is none. NaN may be lost.
template <typename T>
HWY_INLINE float Largest(size_t n, const T* x) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  // Four independent maxima hide the latency of Max.
  auto max0 = lowest, max1 = lowest, max2 = lowest, max3 = lowest;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    max0 = hn::Max(max0, LoadElements(d, x + i));
    max1 = hn::Max(max1, LoadElements(d, x + i + lanes));
    max2 = hn::Max(max2, LoadElements(d, x + i + 2 * lanes));
    max3 = hn::Max(max3, LoadElements(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) max0 = hn::Max(max0, LoadElements(d, x + i));
  if (i < n) {
    const auto last = LoadFirstElements(d, x + i, n - i);
    max1 = hn::Max(max1, hn::IfThenElse(hn::FirstN(d, n - i), last, lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3))));
}

// Returns the largest magnitude as the bits of a float. Such bits compare as integers, NaN above
// all.
template <typename T>
HWY_INLINE uint32_t LargestMagnitude(size_t n, const T* values) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(di);
  for (size_t i = 0; i < n; i += lanes) {
    const auto x = LoadUpTo(d, values + i, std::min(lanes, n - i));
    largest = hn::Max(largest, hn::And(hn::BitCast(di, x), hn::Set(di, 0x7fffffff)));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
