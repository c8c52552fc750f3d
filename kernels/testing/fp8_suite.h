// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_FP8_SUITE_H_
#define ZEROTH_KERNELS_TESTING_FP8_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/fp8.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

struct Fp8ProductCase {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Fp8Format a_format = Fp8Format::kE4M3;
  Fp8Format b_format = Fp8Format::kE4M3;
  DType c_dtype = DType::kFloat32;
  bool accumulate = false;
  bool bias = false;
  int64_t columns_around = 0;  // foreign ones on each side of c, in steps of kFp8Step
};

class Fp8Suite : public KernelsSuite {
 protected:
  struct Codes {
    std::vector<uint8_t> codes;
    std::vector<uint8_t> transposed;
    std::vector<float> scale;
  };

  Tensor UploadCodes(const Shape& shape, const std::vector<uint8_t>& codes);
  std::vector<uint8_t> DownloadCodes(const Tensor& tensor);
  // Casts columns [begin, begin + cols) of values [rows, width].
  Codes Cast(Fp8Format format, DType dtype, const std::vector<float>& values, int64_t rows,
             int64_t width, int64_t begin, int64_t cols);
  // A row whose largest magnitude is the format's largest number, so that nothing is scaled.
  std::vector<uint8_t> CastUnscaled(Fp8Format format, std::vector<float> values);
  Fp8Operand RandomOperand(Fp8Format format, int64_t rows, int64_t depth, float scale);
  // Compares every element with the definition in double.
  void CheckProduct(const Fp8ProductCase& test);
};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_FP8_SUITE_H_
