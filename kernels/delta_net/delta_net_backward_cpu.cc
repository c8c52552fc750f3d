// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/delta_net_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_net/delta_net_backward_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/delta_net/delta_rule-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// A chunk's values that backward keeps, for one value head.
struct ChunkTokens {
  float* q = nullptr;  // [tokens, key_dim], normalised
  float* k = nullptr;
  float* dq = nullptr;
  float* dk = nullptr;
  float* decayed = nullptr;  // [tokens, key_dim, value_dim]
  float* missed = nullptr;   // [tokens, value_dim]
  float* delta = nullptr;
};

// The backward of one token. Turns `dstate`, the gradient of the state after it, into that of the
// state before it, and `ddelta` into the gradient of v. Returns the gradients of beta and of g.
struct GateGradients {
  float dbeta = 0;
  float dg = 0;
};
HWY_INLINE GateGradients StepBackward(const DeltaNetShape& shape, const ChunkTokens& chunk,
                                      int64_t token, const Gates& gates, const float* dout,
                                      float* dstate, float* ddelta) {
  const auto width = static_cast<size_t>(shape.value_dim);
  const float* const q = chunk.q + token * shape.key_dim;
  const float* const k = chunk.k + token * shape.key_dim;
  float* const dq = chunk.dq + token * shape.key_dim;
  float* const dk = chunk.dk + token * shape.key_dim;
  const float* const decayed = chunk.decayed + token * shape.key_dim * shape.value_dim;
  const float* const missed = chunk.missed + token * shape.value_dim;
  const float* const delta = chunk.delta + token * shape.value_dim;
  const float along = Dot(width, delta, dout);
  std::fill_n(ddelta, shape.value_dim, 0.0f);
  for (int64_t i = 0; i < shape.key_dim; ++i) {
    float* const row = dstate + i * shape.value_dim;
    ForVectors(width, [=](auto d, size_t j, auto whole, size_t count) HWY_ATTR {
      const auto sum = hn::MulAdd(hn::Set(d, q[i]), LoadLanes<whole()>(d, dout + j, count),
                                  LoadLanes<whole()>(d, row + j, count));
      StoreLanes<whole()>(sum, d, row + j, count);
      StoreLanes<whole()>(
          hn::MulAdd(hn::Set(d, k[i]), sum, LoadLanes<whole()>(d, ddelta + j, count)), d,
          ddelta + j, count);
    });
    dq[i] += Dot(width, decayed + i * shape.value_dim, dout) + k[i] * along;
    dk[i] += Dot(width, row, delta);
  }
  GateGradients result;
  result.dbeta = Dot(width, ddelta, missed);
  Transform(
      width, ddelta,
      [&gates](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, gates.beta)); },
      static_cast<const float*>(ddelta));
  if (gates.is_first) {
    std::fill_n(dstate, shape.key_dim * shape.value_dim, 0.0f);
    return result;
  }
  for (int64_t i = 0; i < shape.key_dim; ++i) {
    float* const row = dstate + i * shape.value_dim;
    const float* const before = decayed + i * shape.value_dim;
    dk[i] -= Dot(width, before, ddelta);
    Transform(
        width, row,
        [=](auto d, auto s, auto v) HWY_ATTR { return hn::NegMulAdd(hn::Set(d, k[i]), v, s); },
        static_cast<const float*>(row), static_cast<const float*>(ddelta));
    result.dg += Dot(width, row, before);
    Transform(
        width, row,
        [&gates](auto d, auto s) HWY_ATTR { return hn::Mul(s, hn::Set(d, gates.decay)); },
        static_cast<const float*>(row));
  }
  return result;
}

// `sums` [2, value_heads] gets this sequence's parts of the gradients of log_decay and dt_bias.
void DeltaBackward(const GatedDeltaRuleBackwardCall& call, const DeltaTask& task, float* memory,
                   float* sums) {
  const GatedDeltaRuleCall& forward = call.forward;
  WithElementType(forward.dtype, [&]<typename T>(T) HWY_ATTR {
    const DeltaNetShape& shape = forward.shape;
    const int64_t group = shape.value_heads / shape.key_heads;
    const int64_t state_size = shape.key_dim * shape.value_dim;
    const auto width = static_cast<size_t>(shape.value_dim);
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.key_dim));
    Arrays arrays(memory);
    float* const dstates = arrays.Take(group * state_size);
    float* const state = arrays.Take(state_size);
    ChunkTokens chunk;
    for (float** keys : {&chunk.q, &chunk.k, &chunk.dq, &chunk.dk}) {
      *keys = arrays.Take(kDeltaChunk * shape.key_dim);
    }
    chunk.decayed = arrays.Take(kDeltaChunk * state_size);
    chunk.missed = arrays.Take(kDeltaChunk * shape.value_dim);
    chunk.delta = arrays.Take(kDeltaChunk * shape.value_dim);
    float* const dout = arrays.Take(shape.value_dim);
    float* const ddelta = arrays.Take(shape.value_dim);
    float inverse_q[kDeltaChunk];
    float inverse_k[kDeltaChunk];
    std::vector<double> of_heads(static_cast<size_t>(2 * group));
    std::fill_n(dstates, group * state_size, 0.0f);
    for (int64_t c = shape.chunks() - 1; c >= 0; --c) {
      const int64_t first = c * kDeltaChunk;
      const int64_t tokens = std::min(kDeltaChunk, shape.seq - first);
      std::fill_n(chunk.dq, tokens * shape.key_dim, 0.0f);
      std::fill_n(chunk.dk, tokens * shape.key_dim, 0.0f);
      for (int64_t t = 0; t < tokens; ++t) {
        const auto row = RowOf(shape, static_cast<const T*>(forward.qkv), task, first + t);
        inverse_q[t] = Normalize(shape.key_dim, row.q, scale, chunk.q + t * shape.key_dim);
        inverse_k[t] = Normalize(shape.key_dim, row.k, 1.0f, chunk.k + t * shape.key_dim);
      }
      for (int64_t i = 0; i < group; ++i) {
        const int64_t head = task.key_head * group + i;
        std::copy_n(StatesOf(forward, task.sequence, head, c), state_size, state);
        for (int64_t t = 0; t < tokens; ++t) {
          const auto row = RowOf(shape, static_cast<const T*>(forward.qkv), task, first + t);
          Advance({shape.key_dim, shape.value_dim, state, chunk.decayed + t * state_size,
                   chunk.missed + t * shape.value_dim, chunk.delta + t * shape.value_dim},
                  GatesOf<T>(forward, task.sequence, first + t, head), chunk.k + t * shape.key_dim,
                  row.values + head * shape.value_dim);
        }
        for (int64_t t = tokens - 1; t >= 0; --t) {
          const int64_t at = task.sequence * shape.seq + first + t;
          const Gates gates = GatesOf<T>(forward, task.sequence, first + t, head);
          Convert(
              width, dout,
              static_cast<const T*>(call.dout) + (at * shape.value_heads + head) * shape.value_dim);
          const GateGradients gradients =
              StepBackward(shape, chunk, t, gates, dout, dstates + i * state_size, ddelta);
          const auto row = RowOf(shape, static_cast<T*>(call.dqkv), task, first + t);
          Convert(width, row.values + head * shape.value_dim, ddelta);
          const double dg = gradients.dg;
          const float gate_gradients[2] = {gradients.dbeta * gates.beta * (1.0f - gates.beta),
                                           static_cast<float>(dg * gates.dg_da)};
          T* const dgates = static_cast<T*>(call.dgates) + at * 2 * shape.value_heads + head;
          Convert(1, dgates, gate_gradients);
          Convert(1, dgates + shape.value_heads, gate_gradients + 1);
          of_heads[static_cast<size_t>(i)] += dg * gates.g;
          of_heads[static_cast<size_t>(group + i)] += dg * gates.dg_da;
        }
      }
      for (int64_t t = 0; t < tokens; ++t) {
        const auto row = RowOf(shape, static_cast<T*>(call.dqkv), task, first + t);
        const int64_t key = t * shape.key_dim;
        NormalizeBackward(shape.key_dim, chunk.q + key, chunk.dq + key, inverse_q[t], scale, row.q);
        NormalizeBackward(shape.key_dim, chunk.k + key, chunk.dk + key, inverse_k[t], 1.0f, row.k);
      }
    }
    for (int64_t i = 0; i < group; ++i) {
      const int64_t head = task.key_head * group + i;
      sums[head] = static_cast<float>(of_heads[static_cast<size_t>(i)]);
      sums[shape.value_heads + head] = static_cast<float>(of_heads[static_cast<size_t>(group + i)]);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(DeltaBackward);

absl::Status GatedDeltaRuleBackward(const GatedDeltaRuleBackwardCall& call, CpuKernels& kernels) {
  const DeltaNetShape& shape = call.forward.shape;
  const int64_t heads = shape.value_heads;
  ZEROTH_ASSIGN_OR_RETURN(float* const sums,
                          kernels.workspace().ReserveFloats(2 * shape.batch * heads));
  const auto backward = HWY_DYNAMIC_DISPATCH(DeltaBackward);
  ZEROTH_RETURN_IF_ERROR(ForTasks(shape, DeltaBackwardFloats(shape), kernels,
                                  [&](const DeltaTask& task, float* memory) {
                                    backward(call, task, memory, sums + task.sequence * 2 * heads);
                                  }));
  if (call.dlog_decay != nullptr) {
    AddBlocks(shape.batch, heads, 2 * heads, sums, call.accumulate_dlog_decay, call.grad_dtype,
              call.dlog_decay);
  }
  if (call.ddt_bias != nullptr) {
    AddBlocks(shape.batch, heads, 2 * heads, sums + heads, call.accumulate_ddt_bias,
              call.grad_dtype, call.ddt_bias);
  }
  return absl::OkStatus();
}
const OnCpu<GatedDeltaRuleBackward> gated_delta_rule_backward;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
