// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status LinearCrossEntropy(Kernels& kernels, const LinearCrossEntropyArgs& args) {
  Operation op("LinearCrossEntropy", kernels);
  SharedType type;
  SharedType gradient;
  if (!op.Kind("hidden", args.hidden, type) || !op.MinRank("hidden", args.hidden, 1))
    return op.status();
  const Matrix hidden(args.hidden);
  if (!op.Kind("weight", args.weight, type)) return op.status();
  op.Require(
      args.weight.shape().rank() == 2 && args.weight.dim(1) == hidden.cols, "weight",
      absl::StrCat("is ", args.weight.shape().ToString(), ", expected [vocab, ", hidden.cols, "]"));
  op.Count("targets", args.targets, hidden.rows, DType::kInt32);
  op.Count("loss", args.loss, 1, DType::kFloat32);
  if (args.divisor.defined()) op.Count("divisor", args.divisor, 1, DType::kFloat32);
  if (args.dhidden.defined()) op.Rows("dhidden", args.dhidden, hidden.rows, hidden.cols, type);
  if (args.dweight.defined()) op.Exactly("dweight", args.dweight, args.weight.shape(), gradient);
  if (!op.ok()) return op.status();
  LinearCrossEntropyCall call;
  call.rows = hidden.rows;
  call.dim = hidden.cols;
  call.vocab = args.weight.dim(0);
  call.dtype = type.dtype;
  call.grad_dtype = gradient.dtype;
  call.hidden = args.hidden.raw_data();
  call.weight = args.weight.raw_data();
  call.targets = args.targets.data<int32_t>();
  call.loss = args.loss.data<float>();
  call.divisor = args.divisor.defined() ? args.divisor.data<float>() : nullptr;
  call.dhidden = RawDataOrNull(args.dhidden);
  call.dweight = RawDataOrNull(args.dweight);
  call.accumulate_dweight = args.accumulate_dweight;
  call.grad_scale = args.grad_scale;
  return op.Run(call);
}

}  // namespace zeroth::kernels
