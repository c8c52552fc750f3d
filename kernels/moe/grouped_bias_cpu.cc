// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/kernels/moe/offsets_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/moe/grouped_bias_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kColumns = 64;  // summed at a time
// Rows that are summed before they join the total: rounding errors grow with the length of a sum.
constexpr int64_t kBlockRows = 64;

void SumExperts(const GroupedBiasGradientCall& call, int64_t first_expert, int64_t end_expert) {
  WithElementTypes(call.dtype, call.grad_dtype, [&]<typename T, typename G>(T, G) HWY_ATTR {
    const auto add = [](auto, auto sum, auto x) HWY_ATTR { return hn::Add(sum, x); };
    for (int64_t expert = first_expert; expert < end_expert; ++expert) {
      const auto& [dbias, accumulate] = call.outputs[static_cast<size_t>(expert)];
      const int64_t end = call.offsets[expert + 1];
      for (int64_t column = 0; column < call.n; column += kColumns) {
        const auto n = static_cast<size_t>(std::min(kColumns, call.n - column));
        float total[kColumns] = {};
        for (int64_t row = call.offsets[expert]; row < end;) {
          const int64_t stop = std::min(end, row + kBlockRows);
          float block[kColumns] = {};
          for (; row < stop; ++row) {
            Transform(n, block, add, block,
                      static_cast<const T*>(call.dy) + row * call.stride + column);
          }
          Transform(n, total, add, total, block);
        }
        G* const to = static_cast<G*>(dbias) + column;
        if (accumulate) Transform(n, total, add, total, to);
        Convert(n, to, total);
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

HWY_EXPORT(SumExperts);

absl::Status GroupedBiasGradient(const GroupedBiasGradientCall& call, CpuKernels&) {
  const auto experts = static_cast<int64_t>(call.outputs.size());
  ZEROTH_RETURN_IF_ERROR(CheckOffsets(call.offsets, call.outputs.size(), call.rows));
  return ForRows(experts, call.rows * call.n / std::max<int64_t>(1, experts), call,
                 HWY_DYNAMIC_DISPATCH(SumExperts));
}
const OnCpu<GroupedBiasGradient> grouped_bias_gradient;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
