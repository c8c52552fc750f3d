// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/distillation/distillation.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Checks the arguments, sets the fields of `call`, and runs it.
template <typename Args, typename Call>
absl::Status CheckAndRun(Operation op, const Args& args, Call call) {
  const auto& [ids, log_probs, first, options] = args.teacher;
  if (!CheckPart(op, args, kDistillStatistics, call) || !op.Kind("ids", ids, DType::kInt32)) {
    return op.status();
  }
  if (ids.shape().rank() != 2) {
    op.WrongShape("ids", ids, "[rows, k]");
    return op.status();
  }
  const int64_t k = ids.dim(1);
  op.Exactly("ids", ids, {call.rows, k}, DType::kInt32);
  op.Exactly("log_probs", log_probs, {call.rows, k}, DType::kFloat32);
  op.Require(k >= 1 && k <= kMostTeacherTokens, "ids",
             absl::StrCat("have k = ", k, ", expected 1 to ", kMostTeacherTokens));
  CheckDistillation(op, options);
  op.Require(options.divergence == Divergence::kForward, "divergence",
             "is reverse, expected forward with the teacher's k tokens");
  if (!op.ok()) return op.status();
  call.teacher = {k, ids.template data<int32_t>(), log_probs.template data<float>(), first,
                  options};
  return op.Run(call);
}

}  // namespace

void CheckDistillation(Operation& op, const DistillationOptions& options) {
  op.Require(options.alpha >= 0 && options.alpha <= 1, "alpha",
             absl::StrCat("is ", options.alpha, ", expected 0 to 1"));
  op.Require(options.temperature > 0 && std::isfinite(options.temperature), "temperature",
             absl::StrCat("is ", options.temperature, ", expected a finite number above 0"));
}

absl::Status DistillStatistics(Kernels& kernels, const DistillStatisticsArgs& args) {
  return CheckAndRun({"DistillStatistics", kernels}, args, DistillStatisticsCall());
}

absl::Status DistillGradient(Kernels& kernels, const DistillGradientArgs& args) {
  return CheckAndRun({"DistillGradient", kernels}, args, DistillGradientCall());
}

}  // namespace zeroth::kernels
