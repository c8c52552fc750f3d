// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the suites of the Highway kernels once for every instruction set that was compiled and that
// this machine has; the other tests see only the best one.

#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace zeroth::testing {
namespace {

// Each repetition of all tests runs on the next target.
class NextTarget : public ::testing::Environment {
 public:
  explicit NextTarget(std::vector<int64_t> targets) : targets_(std::move(targets)) {}

  void SetUp() override {
    const int64_t target = targets_[next_++ % targets_.size()];
    std::cout << "Target: " << hwy::TargetName(target) << std::endl;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }

 private:
  std::vector<int64_t> targets_;
  size_t next_ = 0;
};

}  // namespace
}  // namespace zeroth::testing

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Matmuls are oneDNN's and slow; targets_test.cc tests Highway's part of them.
  const std::string filter = testing::GTEST_FLAG(filter);
  testing::GTEST_FLAG(filter) = filter + (filter.find('-') == std::string::npos ? "-" : ":") +
                                "*/AttentionSuite.*:*/GemmSuite.*:*/LinearCrossEntropySuite.*";
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  testing::GTEST_FLAG(repeat) = static_cast<int>(targets.size());
  testing::GTEST_FLAG(recreate_environments_when_repeating) = true;
  testing::AddGlobalTestEnvironment(new zeroth::testing::NextTarget(targets));
  return RUN_ALL_TESTS();
}
