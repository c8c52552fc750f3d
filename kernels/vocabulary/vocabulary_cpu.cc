// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstring>

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/vocabulary/row_parts_cpu.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth::cpu {
namespace {

absl::Status LocalIds(const LocalIdsCall& call, CpuKernels&) {
  int64_t counted = 0;
  for (int64_t i = 0; i < call.places; ++i) {
    const int64_t id = call.ids[i];
    if (id == kIgnoredTarget && call.counted != nullptr) {
      call.local[i] = kIgnoredTarget;
      continue;
    }
    if (id < 0 || id >= call.vocab) {
      return InvalidArgument("LocalIds: ids[", i, "] is ", id, ", expected a token in [0, ",
                             call.vocab, ")",
                             call.counted == nullptr ? "" : " or -100 to leave the row out");
    }
    const int64_t local = id - call.first;
    call.local[i] = static_cast<int32_t>(local < 0 || local >= call.count ? call.count : local);
    ++counted;
  }
  if (call.counted != nullptr) *call.counted = static_cast<float>(counted);
  return absl::OkStatus();
}
const OnCpu<LocalIds> local_ids;

absl::Status SoftmaxStatistics(const SoftmaxStatisticsCall& call, CpuKernels&) {
  return ForRows(call.rows, call.count, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      WriteSoftmaxStatistics(call, row, call.statistics + row * kSoftmaxStatistics);
    }
  });
}
const OnCpu<SoftmaxStatistics> softmax_statistics;

absl::Status SoftmaxGradient(const SoftmaxGradientCall& call, CpuKernels&) {
  const auto divisor = static_cast<double>(*call.divisor);
  const float factor =
      divisor == 0 ? 0.0f : static_cast<float>(static_cast<double>(call.grad_scale) / divisor);
  return ForRows(call.rows, call.columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t target = call.targets[row];
      SoftmaxSum all;
      call.losses[row] = 0.0f;
      if (target != kIgnoredTarget) {
        all = Combine<kSoftmaxStatistics>(call, row, 0);
        const double at_target = SumOfParts<kSoftmaxStatistics>(call, row, 2);
        call.losses[row] =
            static_cast<float>(std::log(all.sum) - (at_target - static_cast<double>(all.max)));
      }
      if (call.dlogits == nullptr) continue;
      const float weight = call.row_weights == nullptr ? 1.0f : call.row_weights[row];
      const int64_t tokens = call.columns - call.padding;
      void* const to = Advance(call.dlogits, row * call.columns, call.dtype);
      SoftmaxGradientRow(call.logits + row * call.columns, tokens, target, all.max, all.sum,
                         factor * weight, call.logit_cap, call.dtype, to);
      std::memset(Advance(to, tokens, call.dtype), 0,
                  static_cast<size_t>(call.padding) * SizeOf(call.dtype));
    }
  });
}
const OnCpu<SoftmaxGradient> softmax_gradient;

absl::Status MeanLoss(const MeanLossCall& call, CpuKernels&) {
  double sum = 0;
  for (int64_t row = 0; row < call.rows; ++row) sum += static_cast<double>(call.losses[row]);
  const auto divisor = static_cast<double>(*call.divisor);
  *call.loss = divisor == 0 ? 0.0f : static_cast<float>(sum / divisor);
  return absl::OkStatus();
}
const OnCpu<MeanLoss> mean_loss;

const KernelTable<PlanDividedLossCall>::Registration plan_divided_loss(
    "cpu", [](Kernels&, const PlanDividedLossCall& call, CallTensors) {
      *call.plan = PlanDividedLossOnCpu(call);
      return absl::OkStatus();
    });

}  // namespace
}  // namespace zeroth::cpu
