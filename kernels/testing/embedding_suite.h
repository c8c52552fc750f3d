// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_EMBEDDING_SUITE_H_
#define ZEROTH_KERNELS_TESTING_EMBEDDING_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class EmbeddingSuite : public KernelsSuite {
 protected:
  // Uniform on [0, vocab).
  std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab);
};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_EMBEDDING_SUITE_H_
