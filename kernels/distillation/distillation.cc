// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/distillation/distillation.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

bool IsMatrix(Operation& op, const Tensor& logits) {
  return op.Kind("logits", logits, DType::kFloat32) &&
         (logits.shape().rank() == 2 || op.WrongShape("logits", logits, "[rows, columns]"));
}

// Checks the fields for `rows` rows.
bool IsTeacher(Operation& op, const TeacherArgs& args, int64_t rows, TeacherCall& call) {
  const DistillationOptions& options = args.options;
  if (!op.Kind("ids", args.ids, DType::kInt32)) return false;
  if (args.ids.shape().rank() != 2) return op.WrongShape("ids", args.ids, "[rows, k]");
  call.k = args.ids.dim(1);
  op.Exactly("ids", args.ids, {rows, call.k}, DType::kInt32);
  op.Exactly("log_probs", args.log_probs, {rows, call.k}, DType::kFloat32);
  op.Require(call.k >= 1 && call.k <= kMostTeacherTokens, "ids",
             absl::StrCat("have k = ", call.k, ", expected 1 to ", kMostTeacherTokens));
  CheckDistillation(op, options);
  op.Require(options.divergence == Divergence::kForward, "divergence",
             "is reverse, expected forward with the teacher's k tokens");
  if (!op.ok()) return false;
  call.ids = args.ids.data<int32_t>();
  call.log_probs = args.log_probs.data<float>();
  call.first = args.first;
  call.options = options;
  return true;
}

}  // namespace

void CheckDistillation(Operation& op, const DistillationOptions& options) {
  op.Require(options.alpha >= 0 && options.alpha <= 1, "alpha",
             absl::StrCat("is ", options.alpha, ", expected 0 to 1"));
  op.Require(options.temperature > 0 && std::isfinite(options.temperature), "temperature",
             absl::StrCat("is ", options.temperature, ", expected a finite number above 0"));
}

absl::Status DistillStatistics(Kernels& kernels, const DistillStatisticsArgs& args) {
  Operation op("DistillStatistics", kernels);
  DistillStatisticsCall call;
  if (!IsMatrix(op, args.logits)) return op.status();
  call.rows = args.logits.dim(0);
  call.columns = args.logits.dim(1);
  call.begin = args.begin;
  call.count = args.count;
  op.Part(args.begin, args.count, call.columns);
  op.Count("targets", args.targets, call.rows, DType::kInt32);
  op.Exactly("statistics", args.statistics, {call.rows, kDistillStatistics}, DType::kFloat32);
  if (!IsTeacher(op, args.teacher, call.rows, call.teacher)) return op.status();
  call.logits = args.logits.data<float>();
  call.targets = args.targets.data<int32_t>();
  call.statistics = args.statistics.data<float>();
  return op.Run(call);
}

absl::Status DistillGradient(Kernels& kernels, const DistillGradientArgs& args) {
  Operation op("DistillGradient", kernels);
  SharedType type;
  DistillGradientCall call;
  if (!IsMatrix(op, args.logits) || !op.Kind("statistics", args.statistics, DType::kFloat32)) {
    return op.status();
  }
  call.rows = args.logits.dim(0);
  call.columns = args.logits.dim(1);
  if (args.statistics.shape().rank() != 3) {
    op.WrongShape("statistics", args.statistics,
                  absl::StrCat("[parts, ", call.rows, ", ", kDistillStatistics, "]"));
    return op.status();
  }
  call.padding = args.padding;
  op.Require(args.padding >= 0 && args.padding <= call.columns, "padding",
             absl::StrCat("is ", args.padding, ", expected 0 to the ", call.columns, " columns"));
  call.parts = args.statistics.dim(0);
  op.Exactly("statistics", args.statistics, {call.parts, call.rows, kDistillStatistics},
             DType::kFloat32);
  op.Count("targets", args.targets, call.rows, DType::kInt32);
  op.Count("divisor", args.divisor, 1, DType::kFloat32);
  op.Count("losses", args.losses, call.rows, DType::kFloat32);
  if (args.dlogits.defined()) op.Exactly("dlogits", args.dlogits, {call.rows, call.columns}, type);
  if (!IsTeacher(op, args.teacher, call.rows, call.teacher)) return op.status();
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
