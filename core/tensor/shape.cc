// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"

namespace zeroth {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}

Shape::Shape(absl::Span<const int64_t> dims) {
  ZEROTH_CHECK(dims.size() <= static_cast<size_t>(kMaxRank));
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  bool overflow = false;
  int64_t product = 1;
  for (const int64_t dim : dims) {
    ZEROTH_CHECK(dim >= 0);
    overflow |= __builtin_mul_overflow(product, dim, &product);
    // With a zero dimension there are no elements, even if the other dimensions overflow.
    if (dim == 0) numel_ = 0;
  }
  if (numel_ == 0) return;
  ZEROTH_CHECK(!overflow);
  numel_ = product;
}

size_t Shape::IndexOf(int i) const {
  const int index = i < 0 ? i + rank() : i;
  ZEROTH_CHECK(index >= 0 && index < rank());
  return static_cast<size_t>(index);
}

Shape Shape::With(int i, int64_t size) const {
  std::array<int64_t, kMaxRank> dims = dims_;
  dims[IndexOf(i)] = size;
  return Shape(absl::MakeConstSpan(dims.data(), static_cast<size_t>(rank_)));
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims(), ", "), "]"); }

}  // namespace zeroth
