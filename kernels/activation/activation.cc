// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/activation/activation.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

void CheckLimit(Operation& op, float limit) {
  op.Require(limit >= 0 && std::isfinite(limit), "limit",
             absl::StrCat("is ", limit, ", expected a finite number of at least 0"));
}

}  // namespace

absl::Status Gelu(Kernels& kernels, const Tensor& x, const Tensor& y) {
  Operation op("Gelu", kernels);
  SharedType type;
  if (!op.Kind("x", x, type) || !op.Exactly("y", y, x.shape(), type)) return op.status();
  return op.Run(GeluCall{x.numel(), x.dtype(), x.raw_data(), nullptr, y.raw_data()});
}

absl::Status GeluBackward(Kernels& kernels, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  Operation op("GeluBackward", kernels);
  SharedType type;
  if (!op.Kind("x", x, type) || !op.Exactly("dy", dy, x.shape(), type) ||
      !op.Exactly("dx", dx, x.shape(), type)) {
    return op.status();
  }
  return op.Run(GeluCall{x.numel(), x.dtype(), x.raw_data(), dy.raw_data(), dx.raw_data()});
}

absl::Status SwiGlu(Kernels& kernels, const Tensor& gate_up, const Tensor& out, float limit) {
  Operation op("SwiGlu", kernels);
  CheckLimit(op, limit);
  SharedType type;
  if (!op.Kind("out", out, type) || !op.MinRank("out", out, 1)) return op.status();
  const Matrix flat(out);
  if (!op.Rows("gate_up", gate_up, flat.rows, 2 * flat.cols, type)) return op.status();
  return op.Run(SwiGluCall{flat.rows, flat.cols, out.dtype(), gate_up.raw_data(), nullptr,
                           out.raw_data(), limit});
}

absl::Status SwiGluBackward(Kernels& kernels, const Tensor& gate_up, const Tensor& dout,
                            const Tensor& dgate_up, float limit) {
  Operation op("SwiGluBackward", kernels);
  CheckLimit(op, limit);
  SharedType type;
  if (!op.Kind("dout", dout, type) || !op.MinRank("dout", dout, 1)) return op.status();
  const Matrix flat(dout);
  if (!op.Rows("gate_up", gate_up, flat.rows, 2 * flat.cols, type) ||
      !op.Rows("dgate_up", dgate_up, flat.rows, 2 * flat.cols, type)) {
    return op.status();
  }
  return op.Run(SwiGluCall{flat.rows, flat.cols, dout.dtype(), gate_up.raw_data(), dout.raw_data(),
                           dgate_up.raw_data(), limit});
}

}  // namespace zeroth::kernels
