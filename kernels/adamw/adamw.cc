// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/adamw.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {

AdamWCoefficients DeriveAdamWCoefficients(const AdamWArgs& args) {
  const double root_scale = 1.0 / std::sqrt(args.correction2);
  const double eps = args.eps_mode == EpsMode::kBeforeCorrection ? args.eps * root_scale : args.eps;
  AdamWCoefficients c;
  c.grad_scale = static_cast<float>(args.grad_scale);
  c.beta1 = static_cast<float>(args.beta1);
  c.one_minus_beta1 = static_cast<float>(1.0 - args.beta1);
  c.beta2 = static_cast<float>(args.beta2);
  c.one_minus_beta2 = static_cast<float>(1.0 - args.beta2);
  c.root_scale = static_cast<float>(root_scale);
  c.eps = static_cast<float>(eps);
  c.step = static_cast<float>(args.lr / args.correction1);
  c.decay = static_cast<float>(args.lr * args.weight_decay);
  c.rounding = MakeRoundingKey(args.seed, args.step);
  return c;
}

namespace kernels {
namespace {

// Checks the moments and, if they are codes, the scales of their blocks.
void CheckMoments(Operation& op, const AdamWArgs& args) {
  const bool is_coded = args.m.defined() && args.m.dtype() == DType::kUInt8;
  if (is_coded) {
    op.Exactly("m", args.m, args.param.shape(), DType::kUInt8);
    op.Exactly("v", args.v, args.param.shape(), DType::kUInt8);
    const int64_t blocks = (args.param.numel() + kMomentBlock - 1) / kMomentBlock;
    op.Count("m_scale", args.m_scale, blocks, DType::kFloat32);
    op.Count("v_scale", args.v_scale, blocks, DType::kFloat32);
  } else {
    op.Kept("m", args.m, args.param.shape());
    op.Exactly("v", args.v, args.param.shape(), args.m.dtype());
    op.Require(!args.m_scale.defined() && !args.v_scale.defined(), "m_scale",
               "or v_scale is given, which belong to uint8 moments");
  }
  const int64_t multiple = is_coded ? kMomentBlock : 1;
  op.Require(args.first_element >= 0 && args.first_element % multiple == 0, "first_element",
             absl::StrCat("is ", args.first_element, ", expected a multiple of ", multiple,
                          ", at least 0"));
}

bool CheckRange(Operation& op, const AdamWArgs& args) {
  SharedType gradient;
  if (!op.Kept("param", args.param, args.param.shape())) return false;
  op.Exactly("grad", args.grad, args.param.shape(), gradient);
  CheckMoments(op, args);
  if (args.grad_factor.defined()) op.Count("grad_factor", args.grad_factor, 1, DType::kFloat32);
  if (args.coefficients.defined()) {
    op.Count("coefficients", args.coefficients, kAdamWCoefficients, DType::kFloat32);
  }
  op.Require(args.correction1 > 0, "correction1",
             absl::StrCat("is ", args.correction1, ", expected above 0"));
  op.Require(args.correction2 > 0, "correction2",
             absl::StrCat("is ", args.correction2, ", expected above 0"));
  return op.ok();
}

AdamWRangeCall CallOf(const AdamWArgs& args) {
  AdamWRangeCall call;
  call.count = args.param.numel();
  if (args.coefficients.defined()) {
    call.on_device = static_cast<const AdamWCoefficients*>(args.coefficients.raw_data());
  } else {
    call.coefficients = DeriveAdamWCoefficients(args);
  }
  call.grad_factor = DataOrNull(args.grad_factor);
  call.types = {args.param.dtype(), args.grad.dtype(), args.m.dtype()};
  call.param = args.param.raw_data();
  call.grad = args.grad.raw_data();
  call.m = args.m.raw_data();
  call.v = args.v.raw_data();
  call.m_scale = DataOrNull(args.m_scale);
  call.v_scale = DataOrNull(args.v_scale);
  call.stream = args.stream;
  call.first_element = args.first_element;
  return call;
}

}  // namespace

absl::Status AdamW(Kernels& kernels, absl::Span<const AdamWArgs> ranges) {
  Operation op("AdamW", kernels);
  AdamWCall call;
  call.ranges.reserve(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    op.NextFields();
    if (!CheckRange(op, ranges[i])) {
      if (ranges.size() == 1) return op.status();
      return InvalidArgument(op.status().message(), ", in range ", i, " of ", ranges.size());
    }
    call.ranges.push_back(CallOf(ranges[i]));
  }
  return op.Run(call);
}

}  // namespace kernels
}  // namespace zeroth
