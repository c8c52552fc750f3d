// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_QUANTIZE_SUITE_H_
#define ZEROTH_KERNELS_TESTING_QUANTIZE_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class QuantizeSuite : public KernelsSuite {
 protected:
  Tensor UploadBytes(const std::vector<uint8_t>& bytes);
  std::vector<uint8_t> DownloadBytes(const Tensor& tensor);
  std::vector<float> RandomValues(int64_t count);
};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_QUANTIZE_SUITE_H_
