// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For test programs that mpirun starts on one machine: if ZEROTH_TEST_RANKS_PER_NODE is set, the
// ranks behave as if every group of that many consecutive ranks were on a node.

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/process/node.h"
#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth::testing {
namespace {

class EmulatedNodes : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const text = std::getenv("ZEROTH_TEST_RANKS_PER_NODE");
    if (text == nullptr) return;
    int per_node = 0;
    ASSERT_TRUE(absl::SimpleAtoi(text, &per_node) && per_node > 0) << text;
    const auto environment = ProcessEnvironment::ReadRanks();
    ASSERT_TRUE(environment.ok()) << environment.status();
    SetNodeNameForTest(absl::StrCat("node", environment->rank / per_node));
  }
};

const ::testing::Environment* const registered =
    ::testing::AddGlobalTestEnvironment(new EmulatedNodes);

}  // namespace
}  // namespace zeroth::testing
