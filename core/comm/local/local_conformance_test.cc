// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/core/comm/testing/communicator_test_suite.h"

namespace zeroth::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Local, CommunicatorTest,
                         ::testing::Values(CommunicatorTestParam{"local", "cpu", 1},
                                           CommunicatorTestParam{"local", "cpu", 2},
                                           CommunicatorTestParam{"local", "cpu", 3},
                                           CommunicatorTestParam{"local", "cpu", 4},
                                           CommunicatorTestParam{"local", "cpu", 5},
                                           CommunicatorTestParam{"local", "cpu", 8}),
                         CommunicatorTestName);

}  // namespace
}  // namespace zeroth::testing
