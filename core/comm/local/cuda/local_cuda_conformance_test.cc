// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/core/comm/testing/communicator_test_suite.h"

namespace zeroth::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(LocalCuda, CommunicatorTest,
                         ::testing::Values(CommunicatorTestParam{"local", "cuda", 1},
                                           CommunicatorTestParam{"local", "cuda", 2},
                                           CommunicatorTestParam{"local", "cuda", 3},
                                           CommunicatorTestParam{"local", "cuda", 4},
                                           CommunicatorTestParam{"local", "cuda", 5}),
                         CommunicatorTestName);

}  // namespace
}  // namespace zeroth::testing
