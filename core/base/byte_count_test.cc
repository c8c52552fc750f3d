// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/byte_count.h"

#include "gtest/gtest.h"

namespace zeroth {
namespace {

TEST(ByteCountTest, NumbersWithAndWithoutUnits) {
  EXPECT_EQ(*ParseByteCount("0"), 0);
  EXPECT_EQ(*ParseByteCount("1500"), 1500);
  EXPECT_EQ(*ParseByteCount("64KiB"), 65536);
  EXPECT_EQ(*ParseByteCount("1.5MiB"), 1572864);
  EXPECT_EQ(*ParseByteCount("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(*ParseByteCount("3KB"), 3000);
  EXPECT_EQ(*ParseByteCount("500MB"), 500'000'000);
  EXPECT_EQ(*ParseByteCount("5GB"), 5'000'000'000);
}

TEST(ByteCountTest, RefusesTheRest) {
  for (const char* text :
       {"", "GiB", "-1", "nan", "inf", "1e300GiB", "2 GiB x", "1KiBMiB", "2TB", "5GBGB"}) {
    EXPECT_FALSE(ParseByteCount(text).ok()) << text;
  }
}

}  // namespace
}  // namespace zeroth
