// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/divergence/divergence.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

bool AreMatrices(Operation& op, const Tensor& logits, const Tensor& teacher) {
  if (!op.Kind("logits", logits, DType::kFloat32)) return false;
  if (logits.shape().rank() != 2) return op.WrongShape("logits", logits, "[rows, columns]");
  return op.Exactly("teacher", teacher, logits.shape(), DType::kFloat32);
}

}  // namespace

absl::Status DivergenceStatistics(Kernels& kernels, const DivergenceStatisticsArgs& args) {
  Operation op("DivergenceStatistics", kernels);
  if (!AreMatrices(op, args.logits, args.teacher)) return op.status();
  DivergenceStatisticsCall call;
  call.options = args.options;
  call.rows = args.logits.dim(0);
  call.columns = args.logits.dim(1);
  call.begin = args.begin;
  call.count = args.count;
  op.Part(args.begin, args.count, call.columns);
  op.Count("targets", args.targets, call.rows, DType::kInt32);
  op.Exactly("statistics", args.statistics, {call.rows, kDivergenceStatistics}, DType::kFloat32);
  CheckDistillation(op, args.options);
  if (!op.ok()) return op.status();
  call.teacher = args.teacher.data<float>();
  call.logits = args.logits.data<float>();
  call.targets = args.targets.data<int32_t>();
  call.statistics = args.statistics.data<float>();
  return op.Run(call);
}

absl::Status DivergenceGradient(Kernels& kernels, const DivergenceGradientArgs& args) {
  Operation op("DivergenceGradient", kernels);
  SharedType type;
  if (!AreMatrices(op, args.logits, args.teacher) ||
      !op.Kind("statistics", args.statistics, DType::kFloat32)) {
    return op.status();
  }
  DivergenceGradientCall call;
  call.options = args.options;
  call.rows = args.logits.dim(0);
  call.columns = args.logits.dim(1);
  if (args.statistics.shape().rank() != 3) {
    op.WrongShape("statistics", args.statistics,
                  absl::StrCat("[parts, ", call.rows, ", ", kDivergenceStatistics, "]"));
    return op.status();
  }
  call.parts = args.statistics.dim(0);
  op.Exactly("statistics", args.statistics, {call.parts, call.rows, kDivergenceStatistics},
             DType::kFloat32);
  op.Count("targets", args.targets, call.rows, DType::kInt32);
  op.Count("divisor", args.divisor, 1, DType::kFloat32);
  op.Count("losses", args.losses, call.rows, DType::kFloat32);
  if (args.dlogits.defined()) op.Exactly("dlogits", args.dlogits, {call.rows, call.columns}, type);
  CheckDistillation(op, args.options);
  if (!op.ok()) return op.status();
  call.teacher = args.teacher.data<float>();
  call.logits = args.logits.data<float>();
  call.targets = args.targets.data<int32_t>();
  call.statistics = args.statistics.data<float>();
  call.divisor = args.divisor.data<float>();
  call.grad_scale = args.grad_scale;
  call.logit_cap = args.logit_cap;
  call.losses = args.losses.data<float>();
  call.dtype = type.dtype;
  call.dlogits = RawDataOrNull(args.dlogits);
  return op.Run(call);
}

}  // namespace zeroth::kernels
