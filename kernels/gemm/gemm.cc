// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/gemm.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Checks the epilogue: GemmArgs allows only some combinations.
void CheckEpilogue(Operation& op, const GemmArgs& args, SharedType& operands, SharedType& c) {
  const int64_t m = args.c.rows;
  const int64_t n = args.c.cols;
  const bool activated = args.activation != Activation::kNone;
  if (args.bias.defined()) op.Exactly("bias", args.bias, {n}, operands);
  op.Require(!args.accumulate || (!args.bias.defined() && !activated), "accumulate",
             "excludes bias and activation");
  if (args.pre_activation.defined()) {
    op.Require(args.activation == Activation::kGelu, "pre_activation",
               "is given without the activation kGelu");
    op.Rows("pre_activation", args.pre_activation, m, n, c);
  }
  if (args.gelu_input.defined()) {
    op.Require(!args.bias.defined() && !activated && !args.accumulate, "gelu_input",
               "excludes bias, activation and accumulate");
    op.Rows("gelu_input", args.gelu_input, m, n, c);
  }
}

}  // namespace

absl::Status Gemm(Kernels& kernels, const GemmArgs& args) {
  Operation op("Gemm", kernels);
  SharedType operands;
  SharedType c;
  if (!op.Inside("a", args.a, operands) || !op.Inside("b", args.b, operands)) return op.status();
  GemmCall call;
  call.m = args.transpose_a ? args.a.cols : args.a.rows;
  call.k = args.transpose_a ? args.a.rows : args.a.cols;
  call.n = args.transpose_b ? args.b.rows : args.b.cols;
  op.Sized("b", args.b, args.transpose_b ? call.n : call.k, args.transpose_b ? call.k : call.n,
           operands);
  if (op.Sized("c", args.c, call.m, call.n, c)) CheckEpilogue(op, args, operands, c);
  if (!op.ok()) return op.status();
  call.dtype = operands.dtype;
  call.c_dtype = c.dtype;
  call.a = args.a.raw_data();
  call.lda = args.a.stride;
  call.transpose_a = args.transpose_a;
  call.b = args.b.raw_data();
  call.ldb = args.b.stride;
  call.transpose_b = args.transpose_b;
  call.c = args.c.raw_data();
  call.ldc = args.c.stride;
  call.accumulate = args.accumulate;
  call.bias = RawDataOrNull(args.bias);
  call.activation = args.activation;
  call.pre_activation = RawDataOrNull(args.pre_activation);
  call.gelu_input = RawDataOrNull(args.gelu_input);
  return op.Run(call);
}

absl::Status BiasGradient(Kernels& kernels, const Matrix& dy, const Tensor& dbias,
                          bool accumulate) {
  Operation op("BiasGradient", kernels);
  SharedType type;
  SharedType gradient;
  if (!op.Inside("dy", dy, type) || !op.Exactly("dbias", dbias, {dy.cols}, gradient))
    return op.status();
  return op.Run(BiasGradientCall{dy.rows, dy.cols, dy.stride, type.dtype, dy.raw_data(), accumulate,
                                 gradient.dtype, dbias.raw_data()});
}

}  // namespace zeroth::kernels
