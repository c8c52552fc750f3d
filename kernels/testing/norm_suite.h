// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_NORM_SUITE_H_
#define ZEROTH_KERNELS_TESTING_NORM_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class NormSuite : public KernelsSuite {
 protected:
  // What one random case is made of; the same for both norms. All values are as the types hold
  // them.
  struct Problem {
    int64_t rows = 0;
    int64_t dim = 0;
    DType dtype = DType::kFloat32;
    DType grad_dtype = DType::kFloat32;
    bool fused = false;       // with the residual addition
    bool in_place = false;    // which overwrites an operand
    bool accumulate = false;  // all gradients
    bool frozen = false;      // one parameter has no gradient
    std::vector<float> x;
    std::vector<float> residual;
    std::vector<float> gamma;
    std::vector<float> beta;
    std::vector<float> dy;
    std::vector<float> dx_before;
    std::vector<float> dgamma_before;
    std::vector<float> dbeta_before;
    std::vector<float> normalised;  // x, or what x + residual is stored as
  };

  // The `index`th case: its flags and types follow from the index, all else is random.
  Problem RandomProblem(int index);
  void CheckLayerNorm(const Problem& p);
  void CheckRmsNorm(const Problem& p);

 private:
  // A gradient's tensor before the call.
  Tensor GradientBefore(const Problem& p, const Shape& shape, const std::vector<float>& before,
                        DType dtype);
};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_NORM_SUITE_H_
