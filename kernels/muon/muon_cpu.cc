// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/muon/muon.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/muon/muon_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Updates momenta [begin, end). `scale` is the product of all factors of the gradient.
void MomentumPiece(const MuonMomentumCall& call, float scale, int64_t begin, int64_t end) {
  const float keep = call.coefficients->momentum;
  const float add = call.coefficients->one_minus_momentum * scale;
  const auto n = static_cast<size_t>(end - begin);
  float* const m = call.m + begin;
  const auto mixed = [keep, add](auto d, auto kept, auto g) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, keep), kept, hn::Mul(hn::Set(d, add), g));
  };
  const auto momentum = [&mixed](auto d, auto kept, auto g) HWY_ATTR {
    const auto next = mixed(d, kept, g);
    return hn::IfThenZeroElse(hn::Lt(hn::Abs(next), hn::Set(d, 1.17549435e-38f)), next);
  };
  WithElementType(call.grad_dtype, [&](auto element) HWY_ATTR {
    const auto* const grad = static_cast<const decltype(element)*>(call.grad) + begin;
    Transform(n, m, momentum, m, grad);
    if (call.u != nullptr) Transform(n, call.u + begin, mixed, m, grad);
  });
}

void UpdatePiece(const MuonUpdateCall& call, int64_t begin, int64_t end) {
  const float decay = call.coefficients->decay;
  const float step = call.coefficients->step;
  float* const param = call.param + begin;
  // Subtracts decay and step together, as AdamW does.
  const auto update = [decay, step](auto d, auto w, auto x) HWY_ATTR {
    return hn::Sub(w, hn::MulAdd(hn::Set(d, decay), w, hn::Mul(hn::Set(d, step), x)));
  };
  Transform(static_cast<size_t>(end - begin), param, update, param, call.x + begin);
}

// Computes rows [begin, end) of the lower triangle.
void PolynomialRows(const MuonPolynomialCall& call, float r, float q, int64_t begin, int64_t end) {
  const float b = call.b * r * q * q;
  const float c = call.c * r * q * q * q * q;
  const auto off_diagonal = [b, c](auto d, auto s, auto s2) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, b), s, hn::Mul(hn::Set(d, c), s2));
  };
  const float a = call.a * r;
  const auto on_diagonal = [a, &off_diagonal](auto d, auto s, auto s2)
                               HWY_ATTR { return hn::Add(off_diagonal(d, s, s2), hn::Set(d, a)); };
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      const T* const s = static_cast<const T*>(call.s) + row * call.n;
      T* const s2 = static_cast<T*>(call.s2) + row * call.n;
      Transform(static_cast<size_t>(row), s2, off_diagonal, s, s2);
      Transform(size_t{1}, s2 + row, on_diagonal, s + row, s2 + row);
    }
  });
}

float TraceOf(const MuonNormaliseCall& call) {
  float trace = 0;
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    // Copies the diagonal first, so that one conversion works for all types.
    constexpr size_t kChunk = 256;
    T diagonal[kChunk];
    float values[kChunk];
    const auto n = static_cast<size_t>(call.n);
    for (size_t begin = 0; begin < n; begin += kChunk) {
      const size_t count = std::min(kChunk, n - begin);
      for (size_t i = 0; i < count; ++i) {
        diagonal[i] = static_cast<const T*>(call.s)[(begin + i) * (n + 1)];
      }
      Convert(count, values, diagonal);
      for (size_t i = 0; i < count; ++i) trace += values[i];
    }
  });
  return trace;
}

// Multiplies rows [begin, end) of the lower triangle by t twice, since t^2 may be subnormal.
void NormaliseRows(const MuonNormaliseCall& call, float t, int64_t begin, int64_t end) {
  const auto scaled = [t](auto d, auto s)
                          HWY_ATTR { return hn::Mul(hn::Mul(s, hn::Set(d, t)), hn::Set(d, t)); };
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      T* const s = static_cast<T*>(call.s) + row * call.n;
      Transform(static_cast<size_t>(row + 1), s, scaled, s);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(MomentumPiece);
HWY_EXPORT(UpdatePiece);
HWY_EXPORT(PolynomialRows);
HWY_EXPORT(TraceOf);
HWY_EXPORT(NormaliseRows);

template <typename Call>
float GradScale(const Call& call) {
  return call.coefficients->grad_scale * (call.grad_factor != nullptr ? *call.grad_factor : 1.0f);
}

absl::Status MuonMomentum(const MuonMomentumCall& call, CpuKernels&) {
  const float scale = GradScale(call);
  const auto piece = HWY_DYNAMIC_DISPATCH(MomentumPiece);
  ParallelFor(call.count, kElementGrain, [&](int64_t, int64_t begin, int64_t end) {
    if (!std::isnan(scale)) return piece(call, scale, begin, end);
    if (call.u != nullptr) std::fill(call.u + begin, call.u + end, 0.0f);
  });
  return absl::OkStatus();
}
const OnCpu<MuonMomentum> momentum;

absl::Status MuonUpdate(const MuonUpdateCall& call, CpuKernels&) {
  if (std::isnan(GradScale(call))) return absl::OkStatus();
  return ForPieces(call, HWY_DYNAMIC_DISPATCH(UpdatePiece));
}
const OnCpu<MuonUpdate> update;

float Reciprocal(float norm_squared) { return 1.0f / std::max(std::sqrt(norm_squared), 1e-7f); }

// Clears the mantissa: the largest power of two up to r.
float PowerOfTwo(float r) { return std::bit_cast<float>(std::bit_cast<uint32_t>(r) & 0x7f800000U); }

absl::Status MuonNormalise(const MuonNormaliseCall& call, CpuKernels&) {
  *call.norm_squared = HWY_DYNAMIC_DISPATCH(TraceOf)(call);
  const float t = PowerOfTwo(Reciprocal(*call.norm_squared));
  const auto rows = HWY_DYNAMIC_DISPATCH(NormaliseRows);
  return ForRows(call.n, call.n, [&](int64_t begin, int64_t end) { rows(call, t, begin, end); });
}
const OnCpu<MuonNormalise> normalise;

absl::Status MuonPolynomial(const MuonPolynomialCall& call, CpuKernels&) {
  const float r = call.norm_squared == nullptr ? 1.0f : Reciprocal(*call.norm_squared);
  const float q = r / PowerOfTwo(r);
  const auto rows = HWY_DYNAMIC_DISPATCH(PolynomialRows);
  return ForRows(call.n, call.n, [&](int64_t begin, int64_t end) { rows(call, r, q, begin, end); });
}
const OnCpu<MuonPolynomial> polynomial;

// Works in tiles, so that columns that are read stay in the cache.
template <typename T>
void Mirror(T* s, int64_t n) {
  constexpr int64_t kTile = 32;
  ParallelFor(n, kTile, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t left = begin; left < n; left += kTile) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t last = std::min(left + kTile, n);
        for (int64_t col = std::max(left, row + 1); col < last; ++col) {
          s[row * n + col] = s[col * n + row];
        }
      }
    }
  });
}

absl::Status MuonMirror(const MuonMirrorCall& call, CpuKernels&) {
  if (call.dtype == DType::kFloat32) {
    Mirror(static_cast<float*>(call.s), call.n);
  } else {
    Mirror(static_cast<uint16_t*>(call.s), call.n);  // bits of either 16-bit type
  }
  return absl::OkStatus();
}
const OnCpu<MuonMirror> mirror;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
