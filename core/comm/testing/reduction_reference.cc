// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/testing/reduction_reference.h"

#include <cmath>

#include "zeroth/core/base/check.h"

namespace zeroth::testing {
namespace {

float Tree(ReduceOp op, absl::Span<const float> ranks) {
  if (ranks.size() == 1) return ranks[0];
  size_t half = 1;
  while (half * 2 < ranks.size()) half *= 2;
  const float left = Tree(op, ranks.subspan(0, half));
  const float right = Tree(op, ranks.subspan(half));
  if (op != ReduceOp::kMax) return left + right;
  if (std::isnan(left) || std::isnan(right)) return NAN;
  return std::max(left, right);
}

}  // namespace

float ReferenceReduceFloats(ReduceOp op, absl::Span<const float> ranks) {
  ZEROTH_CHECK(!ranks.empty());
  const float result = Tree(op, ranks);
  return op == ReduceOp::kMean ? result * (1.0f / static_cast<float>(ranks.size())) : result;
}

}  // namespace zeroth::testing
