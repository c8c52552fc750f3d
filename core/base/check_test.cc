// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/check.h"

#include <gtest/gtest.h>

namespace zeroth {
namespace {

TEST(CheckTest, HoldingConditionIsEvaluatedOnceAndPasses) {
  int evaluations = 0;
  ZEROTH_CHECK(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, NamesPlaceAndExpression) {
  const int apples = 3;
  EXPECT_DEATH(ZEROTH_CHECK(apples == 4), "check_test.cc:[0-9]+: invariant violated: apples == 4");
}

TEST(CheckTest, IsAnExpression) {
  // Compiles as the statement of an if with an else, where a macro of several statements would not.
  const bool flag = true;
  if (flag)
    ZEROTH_CHECK(flag);
  else
    FAIL();
}

}  // namespace
}  // namespace zeroth
