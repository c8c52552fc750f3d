// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// A row-major view of a tensor as a matrix. Its rows may be further apart than they are wide, so
// that several products can write side by side into one packed tensor. Shares the tensor's storage.
struct Matrix {
  Tensor tensor;
  int64_t offset = 0;  // elements from the tensor's first
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next

  Matrix() = default;
  // The whole tensor: its last dimension becomes the columns, and all others together become the
  // rows. A tensor of rank 1 is one row.
  Matrix(const Tensor& tensor);  // NOLINT: a tensor is a matrix

  // Returns columns [begin, begin + count) of the same rows.
  Matrix Columns(int64_t begin, int64_t count) const;

  // Return the address of the first element.
  template <typename T>
  T* data() const {
    return tensor.data<T>() + offset;
  }
  void* raw_data() const {
    return static_cast<char*>(tensor.raw_data()) +
           offset * static_cast<int64_t>(SizeOf(tensor.dtype()));
  }
};

}  // namespace zeroth
