// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the shared suite of communicators on one rank. mpi_conformance_test.cc selects tests, and
// starts as many ranks as their world size.

#include "gtest/gtest.h"

#include "zeroth/core/comm/testing/communicator_test_suite.h"

namespace zeroth::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorTest,
                         ::testing::Values(CommunicatorTestParam{"mpi", "cpu", 1},
                                           CommunicatorTestParam{"mpi", "cpu", 2},
                                           CommunicatorTestParam{"mpi", "cpu", 3},
                                           CommunicatorTestParam{"mpi", "cpu", 4},
                                           CommunicatorTestParam{"mpi", "cpu", 5}),
                         CommunicatorTestName);

}  // namespace
}  // namespace zeroth::testing
