// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth::kernels {

absl::Status AddSquares(Kernels& kernels, absl::Span<const Tensor> xs, const Tensor& sum) {
  Operation op("AddSquares", kernels);
  AddSquaresCall call;
  call.arrays.reserve(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string field = xs.size() == 1 ? "x" : absl::StrCat("xs[", i, "]");
    op.NextFields();  // types may differ
    SharedType type;
    if (!op.Kind(field.c_str(), xs[i], type)) return op.status();
    call.arrays.push_back({xs[i].numel(), type.dtype, xs[i].raw_data()});
  }
  if (!op.Exactly("sum", sum, {ExactSum::kWords}, DType::kInt64)) return op.status();
  call.words = sum.data<int64_t>();
  return op.Run(call);
}

absl::Status ClipFactor(Kernels& kernels, const Tensor& sum, double scale, double max_norm,
                        const Tensor& norm_and_factor) {
  Operation op("ClipFactor", kernels);
  op.Exactly("sum", sum, {ExactSum::kWords}, DType::kInt64);
  op.Require(scale >= 0, "scale", absl::StrCat("is ", scale, ", expected 0 or more"));
  op.Require(!std::isnan(max_norm), "max_norm", "is NaN");
  if (!op.Exactly("norm_and_factor", norm_and_factor, {2}, DType::kFloat32)) return op.status();
  return op.Run(
      ClipFactorCall{sum.data<int64_t>(), scale, max_norm, norm_and_factor.data<float>()});
}

}  // namespace zeroth::kernels
