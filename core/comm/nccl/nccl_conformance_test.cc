// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The shared suite of communicators, on the emulated NCCL, which lets ranks share a device.

#include "gtest/gtest.h"

#include "zeroth/core/comm/communicator_test_suite.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/nccl/nccl_test_ranks.h"

namespace zeroth::testing {
namespace {

const LauncherRegistration registration("nccl_threads", RunNcclThreads);

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorTest,
                         ::testing::Values(CommunicatorTestParam{"nccl_threads", "cuda", 1},
                                           CommunicatorTestParam{"nccl_threads", "cuda", 2},
                                           CommunicatorTestParam{"nccl_threads", "cuda", 3},
                                           CommunicatorTestParam{"nccl_threads", "cuda", 4},
                                           CommunicatorTestParam{"nccl_threads", "cuda", 5}),
                         CommunicatorTestName);

}  // namespace
}  // namespace zeroth::testing
