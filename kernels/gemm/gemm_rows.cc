// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>

#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/activation/activation-inl.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <Activation kActivation, class D, class V>
HWY_INLINE V Activate(D d, V x) {
  if constexpr (kActivation == Activation::kGelu) {
    return GeluOf(d, x);
  } else if constexpr (kActivation == Activation::kSilu) {
    return SiluOf(d, x);
  } else {
    return x;
  }
}

template <Activation kActivation, typename Bias, typename C>
void ActivateRow(size_t n, const float* product, const Bias* bias, C* pre_activation, C* c) {
  ForVectors(n, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    auto x = LoadLanes<whole()>(d, product + i, count);
    if (bias != nullptr) x = hn::Add(x, LoadLanes<whole()>(d, bias + i, count));
    if (pre_activation != nullptr) StoreLanes<whole()>(x, d, pre_activation + i, count);
    StoreLanes<whole()>(Activate<kActivation>(d, x), d, c + i, count);
  });
}

template <typename C>
void AccumulateRow(size_t n, const float* product, C* c) {
  ForVectors(n, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    const auto old = LoadLanes<whole()>(d, c + i, count);
    StoreLanes<whole()>(hn::Add(old, LoadLanes<whole()>(d, product + i, count)), d, c + i, count);
  });
}

template <typename C>
void GeluBackwardRow(size_t n, const float* product, const C* gelu_input, C* c) {
  ForVectors(n, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    const auto slope = GeluSlope(d, LoadLanes<whole()>(d, gelu_input + i, count));
    StoreLanes<whole()>(hn::Mul(LoadLanes<whole()>(d, product + i, count), slope), d, c + i, count);
  });
}

template <typename Bias, typename C>
void FinishRow(size_t n, const float* product, const GemmCall& to) {
  C* c = static_cast<C*>(to.c);
  if (to.accumulate) return AccumulateRow(n, product, c);
  if (to.gelu_input != nullptr)
    return GeluBackwardRow(n, product, static_cast<const C*>(to.gelu_input), c);
  const Bias* bias = static_cast<const Bias*>(to.bias);
  C* pre_activation = static_cast<C*>(to.pre_activation);
  switch (to.activation) {
    case Activation::kNone:
      return ActivateRow<Activation::kNone>(n, product, bias, pre_activation, c);
    case Activation::kGelu:
      return ActivateRow<Activation::kGelu>(n, product, bias, pre_activation, c);
    case Activation::kSilu:
      return ActivateRow<Activation::kSilu>(n, product, bias, pre_activation, c);
  }
}

// Rows [begin, end) of the product.
void FinishRows(const GemmCall& call, int64_t begin, int64_t end, const float* product,
                int64_t ld) {
  WithElementTypes(call.dtype, call.c_dtype, [&]<typename Bias, typename C>(Bias, C) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      FinishRow<Bias, C>(static_cast<size_t>(call.n), product + row * ld,
                         BlockOf(call, {row, 0, 1, call.n}));
    }
  });
}

// Rows [begin, end) of an operand.
void WidenPiece(int64_t begin, int64_t end, int64_t cols, DType dtype, const void* from, int64_t ld,
                float* to) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      Convert(static_cast<size_t>(cols), to + row * cols, static_cast<const T*>(from) + row * ld);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(FinishRows);
HWY_EXPORT(WidenPiece);

void FinishProduct(const GemmCall& call, const float* product, int64_t ld) {
  const auto finish = HWY_DYNAMIC_DISPATCH(FinishRows);
  ParallelFor(call.m, RowGrain(call.n),
              [&](int64_t, int64_t begin, int64_t end) { finish(call, begin, end, product, ld); });
}

void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenPiece);
  ParallelFor(rows, RowGrain(cols), [=](int64_t, int64_t begin, int64_t end) {
    widen(begin, end, cols, dtype, from, ld, to);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
