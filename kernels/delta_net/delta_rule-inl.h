// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One token of the gated delta rule, for forward and for backward, which recomputes states.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_DELTA_NET_DELTA_RULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_DELTA_NET_DELTA_RULE_INL_H_
#undef ZEROTH_KERNELS_DELTA_NET_DELTA_RULE_INL_H_
#else
#define ZEROTH_KERNELS_DELTA_NET_DELTA_RULE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/delta_net_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// One token's gates, for one value head.
struct Gates {
  float beta = 0;
  float decay = 0;        // e^g
  bool is_first = false;  // there is no earlier state
  double g = 0;
  double dg_da = 0;
};

inline bool IsFirst(const GatedDeltaRuleCall& call, int64_t sequence, int64_t place) {
  if (place == 0) return call.initial_state == nullptr;
  return call.starts != nullptr && call.starts[sequence * call.shape.seq + place] == place;
}

// Stores x times `scale` over its length, and returns 1 / length.
template <typename T>
HWY_INLINE float Normalize(int64_t count, const T* x, float scale, float* out) {
  const auto n = static_cast<size_t>(count);
  const float inverse = 1.0f / std::sqrt(Dot(n, x, x) + 1e-6f);
  Transform(
      n, out, [=](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, inverse * scale)); }, x);
  return inverse;
}

// The backward of Normalize, whose result was `unit`.
template <typename T>
HWY_INLINE void NormalizeBackward(int64_t count, const float* unit, const float* gradient,
                                  float inverse, float scale, T* out) {
  const auto n = static_cast<size_t>(count);
  const float along = Dot(n, unit, gradient) / (scale * scale);
  Transform(
      n, out,
      [=](auto d, auto u, auto g) HWY_ATTR {
        return hn::Mul(hn::Set(d, inverse * scale), hn::NegMulAdd(u, hn::Set(d, along), g));
      },
      unit, gradient);
}

template <typename T>
HWY_INLINE Gates GatesOf(const GatedDeltaRuleCall& call, int64_t sequence, int64_t place,
                         int64_t head) {
  const int64_t heads = call.shape.value_heads;
  const T* const row =
      static_cast<const T*>(call.gates) + (sequence * call.shape.seq + place) * 2 * heads;
  const double b = ValueOf(row[head]);
  const double a = static_cast<double>(ValueOf(row[heads + head])) +
                   static_cast<double>(ValueOf(static_cast<const T*>(call.dt_bias)[head]));
  const double rate =
      std::exp(static_cast<double>(ValueOf(static_cast<const T*>(call.log_decay)[head])));
  const double softplus = a > 30 ? a : std::log1p(std::exp(a));
  Gates gates;
  gates.beta = static_cast<float>(1.0 / (1.0 + std::exp(-b)));
  gates.g = -rate * softplus;
  gates.decay = static_cast<float>(std::exp(gates.g));
  gates.dg_da = -rate / (1.0 + std::exp(-a));
  gates.is_first = IsFirst(call, sequence, place);
  return gates;
}

// One token: `decayed` = decay * state, then state = decayed + k delta^T. `decayed` may be `state`.
// `missed` is v minus decayed^T k.
struct DeltaStep {
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  float* state = nullptr;
  float* decayed = nullptr;
  float* missed = nullptr;
  float* delta = nullptr;
};

template <typename T>
HWY_INLINE void Advance(const DeltaStep& step, const Gates& gates, const float* k, const T* v) {
  const auto width = static_cast<size_t>(step.value_dim);
  Convert(width, step.missed, v);
  if (gates.is_first) {
    std::fill_n(step.decayed, step.key_dim * step.value_dim, 0.0f);
  } else {
    for (int64_t i = 0; i < step.key_dim; ++i) {
      const float* const from = step.state + i * step.value_dim;
      float* const to = step.decayed + i * step.value_dim;
      ForVectors(width, [=, &gates](auto d, size_t j, auto whole, size_t count) HWY_ATTR {
        const auto s = hn::Mul(LoadLanes<whole()>(d, from + j, count), hn::Set(d, gates.decay));
        StoreLanes<whole()>(s, d, to + j, count);
        float* const missed = step.missed + j;
        StoreLanes<whole()>(
            hn::NegMulAdd(hn::Set(d, k[i]), s, LoadLanes<whole()>(d, missed, count)), d, missed,
            count);
      });
    }
  }
  Transform(
      width, step.delta,
      [&gates](auto d, auto v_less) HWY_ATTR { return hn::Mul(v_less, hn::Set(d, gates.beta)); },
      static_cast<const float*>(step.missed));
  for (int64_t i = 0; i < step.key_dim; ++i) {
    Transform(
        width, step.state + i * step.value_dim,
        [=](auto d, auto s, auto by) HWY_ATTR { return hn::MulAdd(hn::Set(d, k[i]), by, s); },
        static_cast<const float*>(step.decayed + i * step.value_dim),
        static_cast<const float*>(step.delta));
  }
}

// The columns of a token's queries, keys and values.
template <typename T>
struct TokenRow {
  T* q = nullptr;
  T* k = nullptr;
  T* values = nullptr;  // of the first value head
};
template <typename T>
HWY_INLINE TokenRow<T> RowOf(const DeltaNetShape& shape, T* qkv, const DeltaTask& task,
                             int64_t place) {
  T* const row = qkv + (task.sequence * shape.seq + place) * shape.packed_dim();
  const int64_t keys = shape.key_heads * shape.key_dim;
  return {row + task.key_head * shape.key_dim, row + keys + task.key_head * shape.key_dim,
          row + 2 * keys};
}

HWY_INLINE float* StatesOf(const GatedDeltaRuleCall& call, int64_t sequence, int64_t head,
                           int64_t chunk) {
  const DeltaNetShape& shape = call.shape;
  return call.states + ((sequence * shape.value_heads + head) * shape.chunks() + chunk) *
                           shape.key_dim * shape.value_dim;
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
