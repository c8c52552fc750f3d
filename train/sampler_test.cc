// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/sampler.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"

namespace zeroth {
namespace {

TEST(PickTokenTest, TemperatureZeroTakesTheLikeliest) {
  EXPECT_EQ(PickToken({0.1f, 3.0f, -2.0f}, 0.0, 0.99), 1);
}

TEST(PickTokenTest, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};  // 1 : 2 : 5
  std::vector<int> counts(3);
  const CounterRng rng(1, "draws");
  constexpr int kDraws = 40000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(PickToken(logits, 1.0, rng.Uniform(i)))];
  }
  EXPECT_NEAR(counts[0], kDraws / 8.0, 300);
  EXPECT_NEAR(counts[1], kDraws / 4.0, 400);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8.0, 400);
  EXPECT_EQ(PickToken(logits, 1.0, 0.0), 0);
  EXPECT_EQ(PickToken(logits, 1.0, 0.999999), 2);
}

TEST(PrintableTest, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(Printable("tab\tnewline\n~"), "tab\tnewline\n~");
  EXPECT_EQ(Printable("\x1b[2J\x07"), "\\x1b[2J\\x07");
  EXPECT_EQ(Printable("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  // Cut short, overlong, a surrogate, beyond Unicode, a control character of two bytes.
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(Printable("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");
}

}  // namespace
}  // namespace zeroth
