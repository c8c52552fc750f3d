// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/elementwise/elementwise.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status Add(Kernels& kernels, const Tensor& a, const Tensor& b, const Tensor& out) {
  Operation op("Add", kernels);
  SharedType type;
  if (!op.Kind("a", a, type) || !op.Exactly("b", b, a.shape(), type) ||
      !op.Exactly("out", out, a.shape(), type)) {
    return op.status();
  }
  return op.Run(AddCall{a.numel(), a.dtype(), a.raw_data(), b.raw_data(), out.raw_data()});
}

absl::Status Scale(Kernels& kernels, const Tensor& x, float factor) {
  Operation op("Scale", kernels);
  SharedType type;
  if (!op.Kind("x", x, type)) return op.status();
  return op.Run(ScaleCall{x.numel(), x.dtype(), x.raw_data(), factor});
}

absl::Status Lerp(Kernels& kernels, const Tensor& x, const Tensor& target, float weight) {
  Operation op("Lerp", kernels);
  SharedType type;
  if (!op.Kind("x", x, type) || !op.Exactly("target", target, x.shape(), type)) return op.status();
  return op.Run(LerpCall{x.numel(), x.dtype(), x.raw_data(), target.raw_data(), weight});
}

absl::Status Cast(Kernels& kernels, const Tensor& src, const Tensor& dst) {
  Operation op("Cast", kernels);
  if (!op.Place("src", src) || !op.Place("dst", dst)) return op.status();
  const auto require_float = [&op](const char* field, const Tensor& tensor) {
    if (IsFloatingPoint(tensor.dtype())) return;
    op.Require(false, field,
               absl::StrCat("is ", DTypeName(tensor.dtype()), ", expected fp32, bf16 or fp16"));
  };
  require_float("src", src);
  require_float("dst", dst);
  if (!op.Count("dst", dst, src.numel(), dst.dtype())) return op.status();
  return op.Run(CastCall{src.numel(), src.dtype(), src.raw_data(), dst.dtype(), dst.raw_data()});
}

}  // namespace zeroth::kernels
