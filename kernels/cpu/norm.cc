// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/by_element_type.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Several passes over a row that lies in the first-level cache: subtracting the mean before
// squaring keeps the variance accurate, and memory is what limits the kernel anyway.
template <bool kCentered, typename T>
HWY_INLINE void ForwardRow(const NormCall& call, int64_t row) {
  const size_t dim = static_cast<size_t>(call.dim);
  const int64_t begin = row * call.dim;
  const T* x = static_cast<const T*>(call.x) + begin;
  if (call.residual != nullptr) {
    T* sum = static_cast<T*>(call.sum) + begin;
    Transform(
        dim, sum, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, x,
        static_cast<const T*>(call.residual) + begin);
    x = sum;
  }
  const T* gamma = static_cast<const T*>(call.gamma);
  const float count = static_cast<float>(call.dim);
  T* y = static_cast<T*>(call.y) + begin;
  if constexpr (kCentered) {
    const float mean =
        Reduce(
            dim, [](auto, auto acc, auto v) HWY_ATTR { return hn::Add(acc, v); }, x) /
        count;
    const float squares = Reduce(
        dim,
        [mean](auto d, auto acc, auto v) HWY_ATTR {
          const auto centred = hn::Sub(v, hn::Set(d, mean));
          return hn::MulAdd(centred, centred, acc);
        },
        x);
    const float rstd = 1.0f / std::sqrt(squares / count + call.eps);
    Transform(
        dim, y,
        [mean, rstd](auto d, auto v, auto weight, auto bias) HWY_ATTR {
          const auto normal = hn::Mul(hn::Sub(v, hn::Set(d, mean)), hn::Set(d, rstd));
          return hn::MulAdd(normal, weight, bias);
        },
        x, gamma, static_cast<const T*>(call.beta));
    call.mean[row] = mean;
    call.rstd[row] = rstd;
  } else {
    const float squares = Reduce(
        dim, [](auto, auto acc, auto v) HWY_ATTR { return hn::MulAdd(v, v, acc); }, x);
    const float rstd = 1.0f / std::sqrt(squares / count + call.eps);
    Transform(
        dim, y,
        [rstd](auto d, auto v, auto weight)
            HWY_ATTR { return hn::Mul(hn::Mul(v, hn::Set(d, rstd)), weight); },
        x, gamma);
    call.rstd[row] = rstd;
  }
}

// With n = (x - mean) rstd and h = dy gamma, both of one row: dx = rstd (h - average(h) - n
// average(h n)), the second term with a mean only. dgamma sums dy n, dbeta sums dy.
template <bool kCentered, typename T>
HWY_INLINE void BackwardRow(const NormBackwardCall& call, int64_t row, float* dgamma,
                            float* dbeta) {
  const size_t dim = static_cast<size_t>(call.dim);
  const T* dy = static_cast<const T*>(call.dy) + row * call.dim;
  const T* x = static_cast<const T*>(call.x) + row * call.dim;
  const T* gamma = static_cast<const T*>(call.gamma);
  T* dx = static_cast<T*>(call.dx) + row * call.dim;
  const float mean = kCentered ? call.mean[row] : 0.0f;
  const float rstd = call.rstd[row];
  const float count = static_cast<float>(call.dim);

  const auto normalise = [mean, rstd](auto d, auto v) HWY_ATTR {
    const auto centred = kCentered ? hn::Sub(v, hn::Set(d, mean)) : v;
    return hn::Mul(centred, hn::Set(d, rstd));
  };
  float average = 0;
  if constexpr (kCentered) {
    average =
        Reduce(
            dim, [](auto, auto acc, auto g, auto w) HWY_ATTR { return hn::MulAdd(g, w, acc); }, dy,
            gamma) /
        count;
  }
  const float projection = Reduce(
                               dim,
                               [&](auto d, auto acc, auto g, auto w, auto v) HWY_ATTR {
                                 return hn::MulAdd(hn::Mul(g, w), normalise(d, v), acc);
                               },
                               dy, gamma, x) /
                           count;

  // Before dx, which may be dy.
  if (dgamma != nullptr) {
    Transform(
        dim, dgamma,
        [&](auto d, auto sum, auto g, auto v)
            HWY_ATTR { return hn::MulAdd(g, normalise(d, v), sum); },
        dgamma, dy, x);
  }
  if (dbeta != nullptr) {
    Transform(
        dim, dbeta, [](auto, auto sum, auto g) HWY_ATTR { return hn::Add(sum, g); }, dbeta, dy);
  }
  const auto gradient = [&](auto d, auto g, auto w, auto v) HWY_ATTR {
    auto inner = hn::Mul(g, w);
    if constexpr (kCentered) inner = hn::Sub(inner, hn::Set(d, average));
    inner = hn::NegMulAdd(normalise(d, v), hn::Set(d, projection), inner);
    return hn::Mul(inner, hn::Set(d, rstd));
  };
  if (call.accumulate_dx) {
    Transform(
        dim, dx,
        [&](auto d, auto before, auto g, auto w, auto v)
            HWY_ATTR { return hn::Add(before, gradient(d, g, w, v)); },
        dx, dy, gamma, x);
  } else {
    Transform(dim, dx, gradient, dy, gamma, x);
  }
}

template <bool kCentered, typename T>
HWY_INLINE void ForwardRows(const NormCall& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) ForwardRow<kCentered, T>(call, row);
}

template <bool kCentered, typename T>
HWY_INLINE void BackwardRows(const NormBackwardCall& call, int64_t begin, int64_t end,
                             float* dgamma, float* dbeta) {
  for (int64_t row = begin; row < end; ++row) BackwardRow<kCentered, T>(call, row, dgamma, dbeta);
}

// HWY_EXPORT takes the name of a function.
void LayerNormF32(const NormCall& call, int64_t begin, int64_t end) {
  ForwardRows<true, float>(call, begin, end);
}
void LayerNormBF16(const NormCall& call, int64_t begin, int64_t end) {
  ForwardRows<true, BFloat16>(call, begin, end);
}
void LayerNormF16(const NormCall& call, int64_t begin, int64_t end) {
  ForwardRows<true, Float16>(call, begin, end);
}
void RmsNormF32(const NormCall& call, int64_t begin, int64_t end) {
  ForwardRows<false, float>(call, begin, end);
}
void RmsNormBF16(const NormCall& call, int64_t begin, int64_t end) {
  ForwardRows<false, BFloat16>(call, begin, end);
}
void RmsNormF16(const NormCall& call, int64_t begin, int64_t end) {
  ForwardRows<false, Float16>(call, begin, end);
}
void LayerNormBackwardF32(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                          float* dbeta) {
  BackwardRows<true, float>(call, begin, end, dgamma, dbeta);
}
void LayerNormBackwardBF16(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                           float* dbeta) {
  BackwardRows<true, BFloat16>(call, begin, end, dgamma, dbeta);
}
void LayerNormBackwardF16(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                          float* dbeta) {
  BackwardRows<true, Float16>(call, begin, end, dgamma, dbeta);
}
void RmsNormBackwardF32(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                        float* dbeta) {
  BackwardRows<false, float>(call, begin, end, dgamma, dbeta);
}
void RmsNormBackwardBF16(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                         float* dbeta) {
  BackwardRows<false, BFloat16>(call, begin, end, dgamma, dbeta);
}
void RmsNormBackwardF16(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                        float* dbeta) {
  BackwardRows<false, Float16>(call, begin, end, dgamma, dbeta);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(LayerNormF32);
HWY_EXPORT(LayerNormBF16);
HWY_EXPORT(LayerNormF16);
HWY_EXPORT(RmsNormF32);
HWY_EXPORT(RmsNormBF16);
HWY_EXPORT(RmsNormF16);
HWY_EXPORT(LayerNormBackwardF32);
HWY_EXPORT(LayerNormBackwardBF16);
HWY_EXPORT(LayerNormBackwardF16);
HWY_EXPORT(RmsNormBackwardF32);
HWY_EXPORT(RmsNormBackwardBF16);
HWY_EXPORT(RmsNormBackwardF16);

namespace {

using RowsBackward = void (*)(const NormBackwardCall& call, int64_t begin, int64_t end,
                              float* dgamma, float* dbeta);

// Every block of rows sums its parameters' gradients in its own part of the workspace: dgamma, then
// dbeta.
absl::Status Backward(const NormBackwardCall& call, RowsBackward rows_of, Workspace& workspace) {
  const int64_t dim = call.dim;
  const int64_t blocks = BlockCount(call.rows);
  ZEROTH_ASSIGN_OR_RETURN(float* partial, workspace.ReserveFloats(2 * blocks * dim));
  ParallelFor(call.rows, BlockRows(call.rows),
              [&, partial](int64_t block, int64_t begin, int64_t end) {
                float* dgamma = call.dgamma != nullptr ? partial + 2 * block * dim : nullptr;
                float* dbeta = call.dbeta != nullptr ? partial + (2 * block + 1) * dim : nullptr;
                if (dgamma != nullptr) std::fill(dgamma, dgamma + dim, 0.0f);
                if (dbeta != nullptr) std::fill(dbeta, dbeta + dim, 0.0f);
                rows_of(call, begin, end, dgamma, dbeta);
              });
  if (call.dgamma != nullptr)
    AddBlocks(blocks, dim, 2 * dim, partial, call.accumulate_dgamma, call.grad_dtype, call.dgamma);
  if (call.dbeta != nullptr)
    AddBlocks(blocks, dim, 2 * dim, partial + dim, call.accumulate_dbeta, call.grad_dtype,
              call.dbeta);
  return absl::OkStatus();
}

}  // namespace

void LayerNorm(const NormCall& call) {
  const auto rows_of =
      ByElementType(call.dtype, HWY_DYNAMIC_DISPATCH(LayerNormF32),
                    HWY_DYNAMIC_DISPATCH(LayerNormBF16), HWY_DYNAMIC_DISPATCH(LayerNormF16));
  ParallelFor(call.rows, RowGrain(call.dim),
              [&](int64_t, int64_t begin, int64_t end) { rows_of(call, begin, end); });
}

void RmsNorm(const NormCall& call) {
  const auto rows_of =
      ByElementType(call.dtype, HWY_DYNAMIC_DISPATCH(RmsNormF32), HWY_DYNAMIC_DISPATCH(RmsNormBF16),
                    HWY_DYNAMIC_DISPATCH(RmsNormF16));
  ParallelFor(call.rows, RowGrain(call.dim),
              [&](int64_t, int64_t begin, int64_t end) { rows_of(call, begin, end); });
}

absl::Status LayerNormBackward(const NormBackwardCall& call, Workspace& workspace) {
  const auto rows_of = ByElementType(call.dtype, HWY_DYNAMIC_DISPATCH(LayerNormBackwardF32),
                                     HWY_DYNAMIC_DISPATCH(LayerNormBackwardBF16),
                                     HWY_DYNAMIC_DISPATCH(LayerNormBackwardF16));
  return Backward(call, rows_of, workspace);
}

absl::Status RmsNormBackward(const NormBackwardCall& call, Workspace& workspace) {
  const auto rows_of = ByElementType(call.dtype, HWY_DYNAMIC_DISPATCH(RmsNormBackwardF32),
                                     HWY_DYNAMIC_DISPATCH(RmsNormBackwardBF16),
                                     HWY_DYNAMIC_DISPATCH(RmsNormBackwardF16));
  return Backward(call, rows_of, workspace);
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
