// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/gemm_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(Cuda, GemmSuite, testing::Values("cuda"));

}  // namespace
}  // namespace zeroth
