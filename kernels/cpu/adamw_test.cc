// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/adamw_ranges_suite.h"
#include "zeroth/kernels/testing/adamw_suite.h"
#include "zeroth/kernels/testing/low_precision_adamw_suite.h"

namespace zeroth::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, AdamWRangesSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, AdamWSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, LowPrecisionAdamWSuite, ::testing::Values("cpu"));

}  // namespace
}  // namespace zeroth::testing
