// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Returns the address `elements` elements after `from`; null stays null.
inline const void* Advance(const void* from, int64_t elements, DType dtype) {
  if (from == nullptr) return nullptr;
  return static_cast<const char*>(from) + elements * static_cast<int64_t>(SizeOf(dtype));
}
inline void* Advance(void* from, int64_t elements, DType dtype) {
  return const_cast<void*>(Advance(static_cast<const void*>(from), elements, dtype));
}

// A row-major view of a tensor as a matrix. Its rows may be further apart than they are wide, so
// that several matmuls can write side by side into one packed tensor. Shares the tensor's storage.
struct Matrix {
  Tensor tensor;
  int64_t offset = 0;  // elements from the tensor's first
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next

  Matrix() = default;
  // The whole tensor: its last dimension becomes the columns, and all others together become the
  // rows. A tensor of rank 1 is one row.
  Matrix(const Tensor& source) : tensor(source) {  // NOLINT: a tensor is a matrix
    if (!source.defined()) return;
    const Shape& shape = source.shape();
    rows = 1;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape.dim(i);
    cols = shape.rank() == 0 ? 1 : shape.dim(-1);
    stride = cols;
  }

  // Returns columns [begin, begin + count) of the same rows.
  Matrix Columns(int64_t begin, int64_t count) const {
    ZEROTH_CHECK(begin >= 0 && count >= 0 && begin + count <= cols);
    Matrix columns = *this;
    columns.offset += begin;
    columns.cols = count;
    return columns;
  }

  // Return the address of the first element.
  template <typename T>
  T* data() const {
    return tensor.data<T>() + offset;
  }
  void* raw_data() const { return Advance(tensor.raw_data(), offset, tensor.dtype()); }
};

}  // namespace zeroth
