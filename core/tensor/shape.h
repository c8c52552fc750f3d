// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/types/span.h"

namespace zeroth {

// The dimensions of a contiguous row-major tensor. Without dimensions it is a scalar of one
// element. A dimension of zero means no elements. Negative dimensions, more than kMaxRank
// dimensions, and more than 2^63 - 1 elements are bugs and abort, so check sizes from outside
// before making a Shape of them. A value type, without heap memory.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);  // NOLINT: a braced list reads as a shape
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  // Dimension i; negative i counts from the end.
  int64_t dim(int i) const { return dims_[IndexOf(i)]; }
  // Product of all dimensions; 1 for a scalar.
  int64_t numel() const { return numel_; }
  absl::Span<const int64_t> dims() const {
    return absl::MakeConstSpan(dims_.data(), static_cast<size_t>(rank_));
  }
  // Returns this shape with `size` as dimension i, or as the last one.
  Shape With(int i, int64_t size) const;
  Shape WithLast(int64_t size) const { return With(-1, size); }
  // "[2, 3]".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims() == b.dims(); }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  // Aborts if there is no such dimension.
  size_t IndexOf(int i) const;

  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
  int64_t numel_ = 1;
};

}  // namespace zeroth
