// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_SUITE_H_
#define ZEROTH_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth {

class LinearCrossEntropySuite : public KernelsSuite {
 protected:
  // `dtype` of hidden, weight and dhidden, `grad_dtype` of dweight.
  using Types = TypePair;

  // Random hidden states and weights, random targets of which some are left out; outputs start as
  // NaN.
  LinearCrossEntropyArgs Random(int64_t rows, int64_t dim, int64_t vocab, const Types& types);
  // Runs `args` and compares loss and gradients (those that are defined) with the definition.
  // `old_dweight` is what dweight held, if it accumulates.
  void Check(const LinearCrossEntropyArgs& args, const std::vector<float>& old_dweight = {});
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_SUITE_H_
