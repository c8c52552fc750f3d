// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/norm/norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Returns the sum of dy (gamma + offset) (x - mean) rstd.
template <bool kCentered, typename T>
HWY_INLINE float ProjectionOf(size_t dim, float mean, float rstd, const T* dy, const T* gamma,
                              float offset, const T* x) {
  return Reduce(
      dim,
      [mean, rstd, offset](auto d, auto acc, auto g, auto w, auto v) HWY_ATTR {
        const auto centred = kCentered ? hn::Sub(v, hn::Set(d, mean)) : v;
        const auto scale = hn::Add(w, hn::Set(d, offset));
        return hn::MulAdd(hn::Mul(g, scale), hn::Mul(centred, hn::Set(d, rstd)), acc);
      },
      dy, gamma, x);
}

// Makes several passes over a row, which stays in the L1 cache. Subtracting the mean before
// squaring keeps the variance accurate, and memory bandwidth limits the kernel anyway.
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
  const float offset = call.gamma_offset;
  const float count = static_cast<float>(call.width);
  T* y = static_cast<T*>(call.y) + begin;
  if constexpr (kCentered) {
    const float mean = Sum(dim, x) / count;
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
        [mean, rstd, offset](auto d, auto v, auto weight, auto bias) HWY_ATTR {
          const auto normal = hn::Mul(hn::Sub(v, hn::Set(d, mean)), hn::Set(d, rstd));
          return hn::MulAdd(normal, hn::Add(weight, hn::Set(d, offset)), bias);
        },
        x, gamma, static_cast<const T*>(call.beta));
    call.mean[row] = mean;
    call.rstd[row] = rstd;
  } else {
    const float squares = call.sums != nullptr ? call.sums[row] : Dot(dim, x, x);
    const float rstd = 1.0f / std::sqrt(squares / count + call.eps);
    Transform(
        dim, y,
        [rstd, offset](auto d, auto v, auto weight) HWY_ATTR {
          return hn::Mul(hn::Mul(v, hn::Set(d, rstd)), hn::Add(weight, hn::Set(d, offset)));
        },
        x, gamma);
    call.rstd[row] = rstd;
  }
}

// With n = (x - mean) rstd and h = dy (gamma + offset), both of one row: dx = rstd (h - average(h)
// - n average(h n)), where RMS norm lacks the second term. Adds dy n to dgamma and dy to dbeta.
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
  const float offset = call.gamma_offset;
  const float count = static_cast<float>(call.width);

  const auto normalise = [mean, rstd](auto d, auto v) HWY_ATTR {
    const auto centred = kCentered ? hn::Sub(v, hn::Set(d, mean)) : v;
    return hn::Mul(centred, hn::Set(d, rstd));
  };
  float average = 0;
  if constexpr (kCentered) {
    average = Reduce(
                  dim,
                  [offset](auto d, auto acc, auto g, auto w)
                      HWY_ATTR { return hn::MulAdd(g, hn::Add(w, hn::Set(d, offset)), acc); },
                  dy, gamma) /
              count;
  }
  const float along = call.sums != nullptr
                          ? call.sums[row]
                          : ProjectionOf<kCentered>(dim, mean, rstd, dy, gamma, offset, x);
  const float projection = along / count;

  // This comes before dx, which may overwrite dy.
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
    auto inner = hn::Mul(g, hn::Add(w, hn::Set(d, offset)));
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

void NormRows(const NormCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const bool centered = call.mean != nullptr;
    for (int64_t row = begin; row < end; ++row) {
      centered ? ForwardRow<true, T>(call, row) : ForwardRow<false, T>(call, row);
    }
  });
}

void NormBackwardRows(const NormBackwardCall& call, int64_t begin, int64_t end, float* dgamma,
                      float* dbeta) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const bool centered = call.mean != nullptr;
    for (int64_t row = begin; row < end; ++row) {
      centered ? BackwardRow<true, T>(call, row, dgamma, dbeta)
               : BackwardRow<false, T>(call, row, dgamma, dbeta);
    }
  });
}

void RmsSumsRows(const RmsSumsCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const auto cols = static_cast<size_t>(call.cols);
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = static_cast<const T*>(call.x) + row * call.x_stride;
      const T* const dy = static_cast<const T*>(call.dy) + row * call.dy_stride;
      call.sums[row] = call.dy == nullptr ? Dot(cols, x, x)
                                          : ProjectionOf<false>(cols, 0.0f, call.rstd[row], dy,
                                                                static_cast<const T*>(call.gamma),
                                                                call.gamma_offset, x);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(NormRows);
HWY_EXPORT(NormBackwardRows);
HWY_EXPORT(RmsSumsRows);

absl::Status Norm(const NormCall& call, CpuKernels&) {
  return ForRows(call.rows, call.dim, call, HWY_DYNAMIC_DISPATCH(NormRows));
}
const OnCpu<Norm> norm;

// Every block of rows sums the parameters' gradients in its own part of the workspace: dgamma, then
// dbeta.
absl::Status NormBackward(const NormBackwardCall& call, CpuKernels& kernels) {
  const int64_t dim = call.dim;
  const int64_t blocks = BlockCount(call.rows);
  ZEROTH_ASSIGN_OR_RETURN(float* partial, kernels.workspace().ReserveFloats(2 * blocks * dim));
  const auto rows_of = HWY_DYNAMIC_DISPATCH(NormBackwardRows);
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

const OnCpu<NormBackward> norm_backward;

absl::Status RmsSums(const RmsSumsCall& call, CpuKernels&) {
  return ForRows(call.rows, call.cols, call, HWY_DYNAMIC_DISPATCH(RmsSumsRows));
}
const OnCpu<RmsSums> rms_sums;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
