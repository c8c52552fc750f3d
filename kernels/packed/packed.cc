// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/packed/packed.h"

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status Unpack(Kernels& kernels, const UnpackArgs& args) {
  Operation op("Unpack", kernels);
  const absl::Status valid = ValidatePackedShape(args.shape);
  if (!op.Require(valid.ok(), "shape", valid.message()) ||
      !op.Require(!args.blocks.empty(), "blocks", "are none, expected at least one")) {
    return op.status();
  }
  SharedType type;
  const Tensor& first = args.blocks.front().values;
  if (!op.Kind("values", first, type) || !op.MinRank("values", first, 2)) return op.status();
  UnpackCall call;
  const PackedShape& shape = call.shape = args.shape;
  call.row = args.row;
  call.col = args.col;
  call.rows = Matrix(first).rows;
  call.cols = first.dim(-1);
  call.dtype = type.dtype;
  const bool fits = call.row >= 0 && call.row + call.rows <= shape.rows && call.col >= 0 &&
                    call.col + call.cols <= shape.cols && call.col % shape.block() == 0 &&
                    call.cols % shape.block() == 0;
  op.Require(fits, "values",
             absl::StrCat("is ", first.shape().ToString(), " from row ", call.row, " and column ",
                          call.col, ", expected a multiple of ", shape.block(),
                          " columns inside of ", shape.rows, " x ", shape.cols));
  for (const UnpackArgs::Block& block : args.blocks) {
    if (!op.Exactly("values", block.values, first.shape(), type) ||
        !op.Exactly("codes", block.codes, {call.rows, shape.CodeBytes(call.cols)}, DType::kUInt8) ||
        (shape.scales() > 0 &&
         !op.Exactly("scales", block.scales, {shape.scale_bytes()}, DType::kUInt8))) {
      return op.status();
    }
    const void* const scales = shape.scales() > 0 ? block.scales.raw_data() : nullptr;
    call.blocks.push_back(
        {block.codes.data<uint8_t>(), static_cast<const float*>(scales), block.values.raw_data()});
  }
  if (args.offsets.defined() &&
      !op.Exactly("offsets", args.offsets, {static_cast<int64_t>(args.blocks.size()) + 1},
                  DType::kInt32)) {
    return op.status();
  }
  call.offsets = DataOrNull<int32_t>(args.offsets);
  return op.Run(call);
}

}  // namespace zeroth::kernels
