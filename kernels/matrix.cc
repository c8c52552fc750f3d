// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/matrix.h"

#include "zeroth/core/base/check.h"

namespace zeroth {

Matrix::Matrix(const Tensor& source) : tensor(source) {
  if (!source.defined()) return;
  const Shape& shape = source.shape();
  rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape.dim(i);
  cols = shape.rank() == 0 ? 1 : shape.dim(-1);
  stride = cols;
}

Matrix Matrix::Columns(int64_t begin, int64_t count) const {
  ZEROTH_CHECK(begin >= 0 && count >= 0 && begin + count <= cols);
  Matrix columns = *this;
  columns.offset += begin;
  columns.cols = count;
  return columns;
}

}  // namespace zeroth
