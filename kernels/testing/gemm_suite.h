// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_GEMM_SUITE_H_
#define ZEROTH_KERNELS_TESTING_GEMM_SUITE_H_

#include <cstdint>
#include <string>

#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth {

struct GemmCase {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Activation activation = Activation::kNone;
  int64_t padding = 0;  // up to this many foreign columns on each side of every matrix

  std::string ToString() const;
};

class GemmSuite : public KernelsSuite {
 protected:
  // Runs one product of random values and compares every element with the definition, within the
  // bound of any order of float32 additions; foreign columns of c must keep their bits.
  void Check(const GemmCase& test);
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_TESTING_GEMM_SUITE_H_
