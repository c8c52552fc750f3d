// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/basic/basic_suite.h"

namespace zeroth::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, BasicSuite, ::testing::Values("cpu"));

}  // namespace
}  // namespace zeroth::testing
