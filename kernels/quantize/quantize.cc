// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/quantize/quantize.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {
namespace {

// Checks that `quantized` holds `pieces` of `count` values each.
bool CheckQuantized(Operation& op, const Tensor& quantized, int64_t pieces, int64_t count,
                    int64_t block) {
  return op.Require(pieces >= 1, "pieces", absl::StrCat("is ", pieces, ", expected at least 1")) &&
         op.Require(block >= 1, "block",
                    absl::StrCat("is ", block, ", expected at least 1 value")) &&
         op.Exactly("quantized", quantized, {pieces * QuantizedBlocks{count, block}.bytes()},
                    DType::kUInt8);
}

}  // namespace

absl::Status Quantize(Kernels& kernels, const QuantizeArgs& args) {
  Operation op("Quantize", kernels);
  SharedType type;
  if (!op.Kind("values", args.values, type) ||
      !CheckQuantized(op, args.quantized, 1, args.values.numel(), args.block)) {
    return op.status();
  }
  return op.Run(QuantizeCall{{args.values.numel(), args.block},
                             args.values.dtype(),
                             args.values.raw_data(),
                             args.quantized.data<uint8_t>()});
}

absl::Status Dequantize(Kernels& kernels, const DequantizeArgs& args) {
  Operation op("Dequantize", kernels);
  SharedType type;
  if (!op.Kind("values", args.values, type)) return op.status();
  const int64_t pieces = args.pieces;
  const int64_t count = pieces < 1 ? 0 : args.values.numel() / pieces;
  if (pieces >= 1 && args.values.numel() % pieces != 0) {
    op.WrongShape("values", args.values, absl::StrCat("a multiple of ", pieces, " pieces"));
  }
  if (!CheckQuantized(op, args.quantized, pieces, count, args.block)) {
    return op.status();
  }
  return op.Run(DequantizeCall{{count, args.block},
                               pieces,
                               args.quantized.data<uint8_t>(),
                               args.values.dtype(),
                               args.values.raw_data()});
}

absl::Status SumQuantized(Kernels& kernels, const SumQuantizedArgs& args) {
  Operation op("SumQuantized", kernels);
  SharedType type;
  if (!op.Kind("sum", args.sum, type)) return op.status();
  op.Require(!args.accumulate || args.sum.dtype() == DType::kFloat32, "sum",
             absl::StrCat("is ", DTypeName(args.sum.dtype()), ", expected fp32 to accumulate"));
  if (!CheckQuantized(op, args.quantized, args.pieces, args.sum.numel(), args.block))
    return op.status();
  return op.Run(SumQuantizedCall{{args.sum.numel(), args.block},
                                 args.pieces,
                                 args.quantized.data<uint8_t>(),
                                 args.accumulate,
                                 args.mean ? 1.0f / static_cast<float>(args.pieces) : 1.0f,
                                 args.sum.dtype(),
                                 args.sum.raw_data()});
}

}  // namespace zeroth::kernels
