// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_SUM_OF_SQUARES_SUITE_H_
#define ZEROTH_KERNELS_TESTING_SUM_OF_SQUARES_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class SumOfSquaresSuite : public KernelsSuite {
 protected:
  Tensor NewSum();
  static std::vector<int64_t> Words(const Tensor& sum);
  // What ClipFactor makes of the squares of `values`.
  std::vector<float> NormAndFactor(const std::vector<float>& values, double scale, double max_norm);
  // Random mantissas and signs, exponent fields uniform on [lowest, highest], and a tenth of zeros.
  std::vector<float> WildValues(int64_t count, int lowest_exponent, int highest_exponent);
};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_SUM_OF_SQUARES_SUITE_H_
