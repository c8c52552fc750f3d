#include "zeroth/tests/zz_probe/probe.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
TEST(P, Q) { EXPECT_EQ(*zeroth::Probe(5), 15.0); EXPECT_FALSE(zeroth::Probe(-1).ok()); }
// x
