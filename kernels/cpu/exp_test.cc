// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/exp_test.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/exp-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// x.size() is a multiple of every vector length.
void ExpAll(std::vector<float>& x) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < x.size(); i += hn::Lanes(d))
    hn::StoreU(Exp(d, hn::LoadU(d, x.data() + i)), d, x.data() + i);
}

void TanhAll(std::vector<float>& x) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < x.size(); i += hn::Lanes(d))
    hn::StoreU(Tanh(d, hn::LoadU(d, x.data() + i)), d, x.data() + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(ExpAll);
HWY_EXPORT(TanhAll);

// The parameter is one of the instruction sets that this machine has.
class ExpTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }

  static std::vector<float> Exp(std::vector<float> x) { return Of(false, std::move(x)); }
  static std::vector<float> Tanh(std::vector<float> x) { return Of(true, std::move(x)); }

 private:
  static std::vector<float> Of(bool tanh, std::vector<float> x) {
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const size_t size = x.size();
    x.resize((size + 15) / 16 * 16);
    if (tanh) {
      HWY_DYNAMIC_DISPATCH(TanhAll)(x);
    } else {
      HWY_DYNAMIC_DISPATCH(ExpAll)(x);
    }
    x.resize(size);
    return x;
  }
};

TEST_P(ExpTest, WithinTwoUnitsOfTheLastPlace) {
  std::vector<float> x;
  for (float value = -87.3f; value < 88.0f; value += 0.0013f) x.push_back(value);
  for (float value = 1e-30f; value < 1.0f; value *= 1.7f) x.insert(x.end(), {value, -value});
  const std::vector<float> y = Exp(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    ASSERT_LE(std::abs(y[i] - expected), 2 * unit) << "e^" << x[i];
  }
}

TEST_P(ExpTest, Edges) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = Exp({0.0f, -0.0f, -infinity, -88.0f, -1e30f, nan});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST_P(ExpTest, TanhIsWithinFourUnitsOfTheLastPlace) {
  std::vector<float> x;
  for (float value = -12.0f; value < 12.0f; value += 0.00037f) x.push_back(value);
  for (float value = 1e-30f; value < 1e30f; value *= 1.7f) x.insert(x.end(), {value, -value});
  const std::vector<float> y = Tanh(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::tanh(static_cast<double>(x[i]));
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    ASSERT_LE(std::abs(y[i] - expected), 4 * unit) << "tanh " << x[i];
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> edges = Tanh({infinity, -infinity, 0.0f, std::nanf("")});
  EXPECT_EQ(edges[0], 1.0f);
  EXPECT_EQ(edges[1], -1.0f);
  EXPECT_EQ(edges[2], 0.0f);
  EXPECT_TRUE(std::isnan(edges[3]));
}

INSTANTIATE_TEST_SUITE_P(Targets, ExpTest, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
