// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/elementwise/elementwise.h"

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
  SharedType from;
  SharedType to;
  if (!op.Kind("src", src, from)) return op.status();
  op.NextFields();  // any two types
  if (!op.Count("dst", dst, src.numel(), to)) return op.status();
  return op.Run(CastCall{src.numel(), src.dtype(), src.raw_data(), dst.dtype(), dst.raw_data()});
}

}  // namespace zeroth::kernels
