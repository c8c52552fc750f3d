// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroth/kernels/attention/sinks.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/sinks_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void SinkRows(const AttentionSinksCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const auto dim = static_cast<size_t>(call.head_dim);
    std::vector<float> sinks(static_cast<size_t>(call.heads));
    Convert(sinks.size(), sinks.data(), static_cast<const T*>(call.sinks));
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < call.heads; ++head) {
        float& lse = call.lse[call.Statistic(row, head)];
        const float sink = sinks[static_cast<size_t>(head)];
        const float share = 1.0f / (1.0f + std::exp(sink - lse));
        T* const out = static_cast<T*>(call.out) + (row * call.heads + head) * call.head_dim;
        Transform(
            dim, out, [share](auto d, auto x) HWY_ATTR { return hn::Mul(x, hn::Set(d, share)); },
            out);
        lse = std::max(lse, sink) + std::log1p(std::exp(-std::abs(lse - sink)));
      }
    }
  });
}

void GradientRows(const SinkGradientCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const auto dim = static_cast<size_t>(call.head_dim);
    std::vector<float> sinks(static_cast<size_t>(call.heads));
    Convert(sinks.size(), sinks.data(), static_cast<const T*>(call.sinks));
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < call.heads; ++head) {
        const float lse = call.lse[call.Statistic(row, head)];
        const int64_t at = row * call.heads + head;
        call.gradient[at] = -std::exp(sinks[static_cast<size_t>(head)] - lse) *
                            Dot(dim, static_cast<const T*>(call.dout) + at * call.head_dim,
                                static_cast<const T*>(call.out) + at * call.head_dim);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(SinkRows);
HWY_EXPORT(GradientRows);

absl::Status AttentionSinks(const AttentionSinksCall& call, CpuKernels&) {
  return ForRows(call.batch * call.seq, call.heads * call.head_dim, call,
                 HWY_DYNAMIC_DISPATCH(SinkRows));
}
const OnCpu<AttentionSinks> attention_sinks;

absl::Status SinkGradient(const SinkGradientCall& call, CpuKernels&) {
  return ForRows(call.batch * call.seq, 2 * call.heads * call.head_dim, call,
                 HWY_DYNAMIC_DISPATCH(GradientRows));
}
const OnCpu<SinkGradient> sink_gradient;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
