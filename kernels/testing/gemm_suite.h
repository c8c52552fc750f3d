// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_GEMM_SUITE_H_
#define ZEROTH_KERNELS_TESTING_GEMM_SUITE_H_

#include <cstdint>
#include <string>

#include "zeroth/core/base/dtype.h"
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
  bool keep_pre_activation = false;
  bool gelu_backward = false;
  DType dtype = DType::kFloat32;    // of a, b and bias
  DType c_dtype = DType::kFloat32;  // of c, pre_activation and gelu_input
  int64_t padding = 0;              // up to this many foreign columns on each side of every matrix

  std::string ToString() const;
};

class GemmSuite : public KernelsSuite {
 protected:
  // Runs one product of random values and compares every element with the definition, within the
  // bound of any order of float32 additions and the one rounding of what is stored; foreign columns
  // of c must keep their bits.
  void Check(const GemmCase& test);
  // The flags of `test` for every pair of types.
  void CheckTypes(GemmCase test);
  // Sizes up to `most` and every combination of flags that is legal, at random.
  GemmCase RandomCase(int64_t most);
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_TESTING_GEMM_SUITE_H_
