// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/divergence/divergence.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Checks the arguments, sets the fields of `call`, and runs it.
template <typename Args, typename Call>
absl::Status CheckAndRun(Operation op, const Args& args, Call call) {
  if (!CheckPart(op, args, kDivergenceStatistics, call)) return op.status();
  op.Exactly("teacher", args.teacher, args.logits.shape(), DType::kFloat32);
  CheckDistillation(op, args.options);
  if (!op.ok()) return op.status();
  call.options = args.options;
  call.teacher = args.teacher.template data<float>();
  return op.Run(call);
}

}  // namespace

absl::Status DivergenceStatistics(Kernels& kernels, const DivergenceStatisticsArgs& args) {
  return CheckAndRun({"DivergenceStatistics", kernels}, args, DivergenceStatisticsCall());
}

absl::Status DivergenceGradient(Kernels& kernels, const DivergenceGradientArgs& args) {
  return CheckAndRun({"DivergenceGradient", kernels}, args, DivergenceGradientCall());
}

}  // namespace zeroth::kernels
