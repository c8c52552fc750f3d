// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The shared suite of communicators as one rank runs it: mpi_conformance_test.cc starts as many as
// the world sizes of the tests that it filters.

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
