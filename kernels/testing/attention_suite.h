// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_ATTENTION_SUITE_H_
#define ZEROTH_KERNELS_TESTING_ATTENTION_SUITE_H_

#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth {

class AttentionSuite : public KernelsSuite {
 protected:
  struct Forward {
    Tensor qkv;
    Tensor out;
    Tensor lse;
  };

  // Runs forward on `qkv`, rounded to `dtype`; every output starts as NaN.
  Forward RunForward(const AttentionShape& shape, const std::vector<float>& qkv,
                     DType dtype = DType::kFloat32);
  Tensor RunBackward(const AttentionShape& shape, const std::vector<float>& dout,
                     const Forward& forward);
  // Forward and backward of random values against the definition.
  void Check(const AttentionShape& shape, float stddev, DType dtype);
  // The same for every element type.
  void CheckTypes(const AttentionShape& shape, float stddev);
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_TESTING_ATTENTION_SUITE_H_
