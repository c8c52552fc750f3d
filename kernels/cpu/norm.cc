// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/norm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
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
template <bool kCentered>
HWY_INLINE void ForwardRow(const NormCall& call, int64_t row) {
  const size_t dim = static_cast<size_t>(call.dim);
  const float* x = call.x + row * call.dim;
  if (call.residual != nullptr) {
    float* sum = call.sum + row * call.dim;
    Transform(
        dim, sum, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); }, x,
        call.residual + row * call.dim);
    x = sum;
  }
  const float count = static_cast<float>(call.dim);
  float* y = call.y + row * call.dim;
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
        [mean, rstd](auto d, auto v, auto gamma, auto beta) HWY_ATTR {
          const auto normal = hn::Mul(hn::Sub(v, hn::Set(d, mean)), hn::Set(d, rstd));
          return hn::MulAdd(normal, gamma, beta);
        },
        x, call.gamma, call.beta);
    call.mean[row] = mean;
    call.rstd[row] = rstd;
  } else {
    const float squares = Reduce(
        dim, [](auto, auto acc, auto v) HWY_ATTR { return hn::MulAdd(v, v, acc); }, x);
    const float rstd = 1.0f / std::sqrt(squares / count + call.eps);
    Transform(
        dim, y,
        [rstd](auto d, auto v, auto gamma)
            HWY_ATTR { return hn::Mul(hn::Mul(v, hn::Set(d, rstd)), gamma); },
        x, call.gamma);
    call.rstd[row] = rstd;
  }
}

// With n = (x - mean) rstd and h = dy gamma, both of one row: dx = rstd (h - average(h) - n
// average(h n)), the second term with a mean only. dgamma sums dy n, dbeta sums dy.
template <bool kCentered>
HWY_INLINE void BackwardRow(const NormBackwardCall& call, int64_t row, float* dgamma,
                            float* dbeta) {
  const size_t dim = static_cast<size_t>(call.dim);
  const float* dy = call.dy + row * call.dim;
  const float* x = call.x + row * call.dim;
  float* dx = call.dx + row * call.dim;
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
            call.gamma) /
        count;
  }
  const float projection = Reduce(
                               dim,
                               [&](auto d, auto acc, auto g, auto w, auto v) HWY_ATTR {
                                 return hn::MulAdd(hn::Mul(g, w), normalise(d, v), acc);
                               },
                               dy, call.gamma, x) /
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
        dx, dy, call.gamma, x);
  } else {
    Transform(dim, dx, gradient, dy, call.gamma, x);
  }
}

void LayerNormRows(const NormCall& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) ForwardRow<true>(call, row);
}

void RmsNormRows(const NormCall& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) ForwardRow<false>(call, row);
}

void LayerNormBackwardRows(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                           float* dbeta) {
  for (int64_t row = begin; row < end; ++row) BackwardRow<true>(call, row, dgamma, dbeta);
}

void RmsNormBackwardRows(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                         float* dbeta) {
  for (int64_t row = begin; row < end; ++row) BackwardRow<false>(call, row, dgamma, dbeta);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(LayerNormRows);
HWY_EXPORT(RmsNormRows);
HWY_EXPORT(LayerNormBackwardRows);
HWY_EXPORT(RmsNormBackwardRows);

namespace {

using BackwardRows = void (*)(const NormBackwardCall& call, int64_t begin, int64_t end,
                              float* dgamma, float* dbeta);

// Every block of rows sums its parameters' gradients in its own part of the workspace: dgamma, then
// dbeta.
absl::Status Backward(const NormBackwardCall& call, BackwardRows rows_of, Workspace& workspace) {
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
    AddBlocks(blocks, dim, 2 * dim, partial, call.accumulate_dgamma, call.dgamma);
  if (call.dbeta != nullptr)
    AddBlocks(blocks, dim, 2 * dim, partial + dim, call.accumulate_dbeta, call.dbeta);
  return absl::OkStatus();
}

}  // namespace

void LayerNorm(const NormCall& call) {
  ParallelFor(call.rows, RowGrain(call.dim), [&](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(LayerNormRows)(call, begin, end);
  });
}

void RmsNorm(const NormCall& call) {
  ParallelFor(call.rows, RowGrain(call.dim), [&](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RmsNormRows)(call, begin, end);
  });
}

absl::Status LayerNormBackward(const NormBackwardCall& call, Workspace& workspace) {
  return Backward(call, HWY_DYNAMIC_DISPATCH(LayerNormBackwardRows), workspace);
}

absl::Status RmsNormBackward(const NormBackwardCall& call, Workspace& workspace) {
  return Backward(call, HWY_DYNAMIC_DISPATCH(RmsNormBackwardRows), workspace);
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
