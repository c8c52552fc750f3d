// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/packed/packed.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status Unpack(Kernels& kernels, const UnpackArgs& args) {
  Operation op("Unpack", kernels);
  const absl::Status valid = ValidatePackedShape(args.shape);
  SharedType type;
  if (!op.Require(valid.ok(), "shape", valid.message()) || !op.Kind("values", args.values, type) ||
      !op.MinRank("values", args.values, 2)) {
    return op.status();
  }
  const int64_t cols = args.values.dim(-1);
  const int64_t rows = args.values.numel() / std::max<int64_t>(cols, 1);
  const PackedShape& shape = args.shape;
  const bool fits = args.row >= 0 && args.row + rows <= shape.rows && args.col >= 0 &&
                    args.col + cols <= shape.cols && args.col % shape.block() == 0 &&
                    cols % shape.block() == 0;
  if (!op.Require(fits, "values",
                  absl::StrCat("is ", args.values.shape().ToString(), " from row ", args.row,
                               " and column ", args.col, ", expected blocks of ", shape.block(),
                               " columns inside of ", shape.rows, " x ", shape.cols)) ||
      !op.Exactly("codes", args.codes, {rows, shape.CodeBytes(cols)}, DType::kUInt8) ||
      (shape.scales() > 0 &&
       !op.Exactly("scales", args.scales, {shape.scale_bytes()}, DType::kUInt8)) ||
      (args.multiplied.defined() &&
       !op.Exactly("multiplied", args.multiplied, {2}, DType::kInt32))) {
    return op.status();
  }
  const void* const scales = shape.scales() > 0 ? args.scales.raw_data() : nullptr;
  return op.Run(UnpackCall{shape, args.row, args.col, rows, cols, args.codes.data<uint8_t>(),
                           static_cast<const float*>(scales), args.values.dtype(),
                           args.values.raw_data(),
                           args.multiplied.defined() ? args.multiplied.data<int32_t>() : nullptr});
}

}  // namespace zeroth::kernels
