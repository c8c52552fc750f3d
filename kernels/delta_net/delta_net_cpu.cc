// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/delta_net/delta_net_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/delta_net/delta_net.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_net/delta_net_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/delta_net/delta_rule-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void DeltaForward(const GatedDeltaRuleCall& call, const DeltaTask& task, float* memory) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const DeltaNetShape& shape = call.shape;
    const int64_t group = shape.value_heads / shape.key_heads;
    const int64_t state_size = shape.key_dim * shape.value_dim;
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.key_dim));
    Arrays arrays(memory);
    float* const states = arrays.Take(group * state_size);
    float* const q = arrays.Take(shape.key_dim);
    float* const k = arrays.Take(shape.key_dim);
    float* const missed = arrays.Take(shape.value_dim);
    float* const delta = arrays.Take(shape.value_dim);
    float* const sum = arrays.Take(shape.value_dim);
    // This key head's part of an initial or final state.
    const int64_t state_offset =
        (task.sequence * shape.value_heads + task.key_head * group) * state_size;
    if (call.initial_state == nullptr) {
      std::fill_n(states, group * state_size, 0.0f);
    } else {
      std::copy_n(call.initial_state + state_offset, group * state_size, states);
    }
    for (int64_t place = 0; place < shape.seq; ++place) {
      const TokenRow<const T> row = RowOf(shape, static_cast<const T*>(call.qkv), task, place);
      Normalize(shape.key_dim, row.q, scale, q);
      Normalize(shape.key_dim, row.k, 1.0f, k);
      for (int64_t i = 0; i < group; ++i) {
        const int64_t head = task.key_head * group + i;
        float* const state = states + i * state_size;
        if (call.states != nullptr && place % kDeltaChunk == 0) {
          std::copy_n(state, state_size, StatesOf(call, task.sequence, head, place / kDeltaChunk));
        }
        Advance({shape.key_dim, shape.value_dim, state, state, missed, delta},
                GatesOf<T>(call, task.sequence, place, head), k,
                row.values + head * shape.value_dim);
        std::fill_n(sum, shape.value_dim, 0.0f);
        for (int64_t r = 0; r < shape.key_dim; ++r) {
          Transform(
              static_cast<size_t>(shape.value_dim), sum,
              [=](auto d, auto s, auto all)
                  HWY_ATTR { return hn::MulAdd(hn::Set(d, q[r]), s, all); },
              static_cast<const float*>(state + r * shape.value_dim),
              static_cast<const float*>(sum));
        }
        T* const out =
            static_cast<T*>(call.out) +
            ((task.sequence * shape.seq + place) * shape.value_heads + head) * shape.value_dim;
        Convert(static_cast<size_t>(shape.value_dim), out, sum);
      }
    }
    if (call.final_state != nullptr) {
      std::copy_n(states, group * state_size, call.final_state + state_offset);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(DeltaForward);

absl::Status GatedDeltaRule(const GatedDeltaRuleCall& call, CpuKernels& kernels) {
  const auto forward = HWY_DYNAMIC_DISPATCH(DeltaForward);
  return ForTasks(call.shape, DeltaForwardFloats(call.shape), kernels,
                  [&](const DeltaTask& task, float* memory) { forward(call, task, memory); });
}
const OnCpu<GatedDeltaRule> gated_delta_rule;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
