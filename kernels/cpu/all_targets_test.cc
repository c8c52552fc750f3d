// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The suites of the Highway kernels again, once for every instruction set that was compiled and
// that this machine has; the other tests see only the best one.

#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"

#include "zeroth/kernels/basic/basic_suite.h"
#include "zeroth/kernels/testing/activation_suite.h"
#include "zeroth/kernels/testing/adamw_ranges_suite.h"
#include "zeroth/kernels/testing/adamw_suite.h"
#include "zeroth/kernels/testing/cast_suite.h"
#include "zeroth/kernels/testing/elementwise_suite.h"
#include "zeroth/kernels/testing/embedding_suite.h"
#include "zeroth/kernels/testing/fp8_suite.h"
#include "zeroth/kernels/testing/low_precision_adamw_suite.h"
#include "zeroth/kernels/testing/norm_suite.h"
#include "zeroth/kernels/testing/quantize_suite.h"
#include "zeroth/kernels/testing/rope_suite.h"
#include "zeroth/kernels/testing/sum_of_squares_suite.h"

namespace zeroth::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, ActivationSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, AdamWRangesSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, AdamWSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, BasicSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, CastSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, ElementwiseSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, EmbeddingSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, LowPrecisionAdamWSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, NormSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, QuantizeSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, RopeSuite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, Fp8Suite, ::testing::Values("cpu"));
INSTANTIATE_TEST_SUITE_P(Cpu, SumOfSquaresSuite, ::testing::Values("cpu"));

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
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  testing::GTEST_FLAG(repeat) = static_cast<int>(targets.size());
  testing::GTEST_FLAG(recreate_environments_when_repeating) = true;
  testing::AddGlobalTestEnvironment(new zeroth::testing::NextTarget(targets));
  return RUN_ALL_TESTS();
}
