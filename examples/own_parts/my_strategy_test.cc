// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"

#include "zeroth/strategies/testing/strategy_suite.h"

using zeroth::StrategySuite;  // the macro wants a name without "::"

INSTANTIATE_TEST_SUITE_P(KeepSome, StrategySuite,
                         testing::ValuesIn(zeroth::StrategyCases("keep_some")),
                         zeroth::StrategyCaseName);
