// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The contract of communicator.h, mesh.h and launcher.h as tests. A back end passes them by
//   INSTANTIATE_TEST_SUITE_P(Mine, CommunicatorTest,
//   ::testing::Values(CommunicatorTestParam{"mine", "cpu", 4}, ...),
//                            CommunicatorTestName);
// in namespace zeroth::testing of one source that includes this file.

#pragma once

#include "zeroth/core/comm/testing/communicator_failures_suite.h"
#include "zeroth/core/comm/testing/communicator_groups_suite.h"
#include "zeroth/core/comm/testing/communicator_memory_suite.h"
#include "zeroth/core/comm/testing/communicator_results_suite.h"
#include "zeroth/core/comm/testing/communicator_test_fixture.h"
