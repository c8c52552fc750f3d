// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/fp8/fp8.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

bool CheckOperand(Operation& op, const char* codes, const char* scale, const Fp8Operand& operand) {
  return op.Kind(codes, operand.codes, DType::kUInt8) &&
         ((operand.codes.shape().rank() == 2 && operand.codes.dim(1) % kFp8Step == 0) ||
          op.WrongShape(codes, operand.codes,
                        absl::StrCat("[rows, depth] with a depth in steps of ", kFp8Step))) &&
         op.Exactly(scale, operand.scale, {2}, DType::kFloat32);
}

// Tensor cores load 16 bytes at a time.
bool CheckAligned(Operation& op, const char* field, const Tensor& tensor) {
  return op.Require(reinterpret_cast<uintptr_t>(tensor.raw_data()) % kFp8Step == 0, field,
                    absl::StrCat("does not begin on a multiple of ", kFp8Step, " bytes"));
}

}  // namespace

absl::Status SupportsFp8(Kernels& kernels) {
  Operation op("Fp8Gemm", kernels);
  return op.Run(SupportsFp8Call());
}

absl::Status CastFp8(Kernels& kernels, const CastFp8Args& args) {
  Operation op("CastFp8", kernels);
  SharedType type;
  if (!op.Inside("values", args.values, type)) return op.status();
  const int64_t rows = args.values.rows;
  const int64_t cols = args.values.cols;
  op.Require(args.codes.defined() || args.codes_transposed.defined(), "codes",
             "is undefined, and so is codes_transposed: there is nothing to write");
  if (args.codes.defined() && op.Exactly("codes", args.codes, {rows, cols}, DType::kUInt8)) {
    CheckAligned(op, "codes", args.codes);
  }
  if (args.codes_transposed.defined() && op.Exactly("codes_transposed", args.codes_transposed,
                                                    {cols, PaddedFp8Depth(rows)}, DType::kUInt8)) {
    CheckAligned(op, "codes_transposed", args.codes_transposed);
  }
  if (!op.Exactly("scale", args.scale, {2}, DType::kFloat32)) return op.status();
  return op.Run(CastFp8Call{rows, cols, args.values.stride, type.dtype, args.values.raw_data(),
                            args.format, DataOrNull<uint8_t>(args.codes),
                            DataOrNull<uint8_t>(args.codes_transposed), args.scale.data<float>()});
}

absl::Status Fp8Gemm(Kernels& kernels, const Fp8GemmArgs& args) {
  ZEROTH_RETURN_IF_ERROR(SupportsFp8(kernels));
  Operation op("Fp8Gemm", kernels);
  if (!CheckOperand(op, "a.codes", "a.scale", args.a) ||
      !CheckOperand(op, "b.codes", "b.scale", args.b)) {
    return op.status();
  }
  const int64_t m = args.a.codes.dim(0);
  const int64_t n = args.b.codes.dim(0);
  const int64_t k = args.a.codes.dim(1);
  op.Exactly("b.codes", args.b.codes, {n, k}, DType::kUInt8);
  op.Require(n % kFp8Step == 0, "b.codes",
             absl::StrCat("has ", n, " rows, expected them in steps of ", kFp8Step));
  op.Require(args.a.format == Fp8Format::kE4M3 || args.b.format == Fp8Format::kE4M3, "b.format",
             "is e5m2 as a's is, which no device multiplies");
  SharedType c;
  if (!op.Sized("c", args.c, m, n, c)) return op.status();
  op.Require(args.c.offset % kFp8Step == 0 && (m <= 1 || args.c.stride % kFp8Step == 0), "c",
             absl::StrCat("is at offset ", args.c.offset, " with rows ", args.c.stride,
                          " apart, expected both in steps of ", kFp8Step));
  CheckAligned(op, "a.codes", args.a.codes);
  CheckAligned(op, "b.codes", args.b.codes);
  CheckAligned(op, "c", args.c.tensor);
  if (args.bias.defined()) {
    op.Require(!args.accumulate, "accumulate", "excludes bias");
    op.Require(c.dtype != DType::kFloat32, "bias",
               "beside c in fp32, expected c and bias in bf16 or fp16");
    if (op.Exactly("bias", args.bias, {n}, c)) CheckAligned(op, "bias", args.bias);
  }
  if (!op.ok()) return op.status();
  Fp8GemmCall call;
  call.m = m;
  call.n = n;
  call.k = k;
  call.a = args.a.codes.data<uint8_t>();
  call.a_format = args.a.format;
  call.a_scale = args.a.scale.data<float>();
  call.b = args.b.codes.data<uint8_t>();
  call.b_format = args.b.format;
  call.b_scale = args.b.scale.data<float>();
  call.c_dtype = c.dtype;
  call.c = args.c.raw_data();
  call.ldc = args.c.stride;
  call.accumulate = args.accumulate;
  call.bias = RawDataOrNull(args.bias);
  return op.Run(call);
}

}  // namespace zeroth::kernels
