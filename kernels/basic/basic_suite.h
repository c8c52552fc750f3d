// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_BASIC_BASIC_SUITE_H_
#define ZEROTH_KERNELS_BASIC_BASIC_SUITE_H_

#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class BasicSuite : public KernelsSuite {};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_BASIC_BASIC_SUITE_H_
