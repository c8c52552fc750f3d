// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/node.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

using Names = std::vector<std::string>;

TEST(RanksPerNodeTest, EqualNodesOfAPowerOfTwo) {
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "b", "b"}), 2);
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "a", "a", "b", "b", "b", "b"}), 4);
  // The number of nodes need not be a power of two.
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "b", "b", "c", "c"}), 2);
}

TEST(RanksPerNodeTest, OtherGroupsAreNotDivided) {
  EXPECT_EQ(RanksPerNode(Names{"a"}), 1);
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "a", "a"}), 1) << "one node";
  EXPECT_EQ(RanksPerNode(Names{"a", "b", "c"}), 1) << "one rank on each node";
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "a", "b", "b", "b"}), 1) << "no power of two";
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "b"}), 1) << "uneven";
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "b", "b", "b", "c"}), 1) << "uneven";
  EXPECT_EQ(RanksPerNode(Names{"a", "b", "a", "b"}), 1) << "not in the order of ranks";
  EXPECT_EQ(RanksPerNode(Names{"a", "a", "b", "b", "a", "a"}), 1) << "a node in two places";
}

TEST(NodeNameTest, IsThatOfTheMachine) {
  EXPECT_EQ(NodeName(), NodeName());
  EXPECT_NE(NodeName().find(HostName()), std::string::npos);
}

}  // namespace
}  // namespace zeroth
