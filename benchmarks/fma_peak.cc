// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/benchmarks/fma_peak.h"

#include <cstdint>

#include "benchmark/benchmark.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/fma_peak.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

double MultiplyAddLanes() {
  // Twelve chains keep two units with a latency of up to six cycles busy. With the two operands
  // they fit into 16 registers; variables rather than an array, which compilers keep in memory.
  constexpr int kChains = 12;
  constexpr int64_t kRounds = 1000000;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  // x = x a + b converges to 1, far from denormal numbers, which are slow.
  const V a = hn::Set(d, 0.5f);
  const V b = hn::Set(d, 0.5f);
  V x0 = hn::Iota(d, 0.0f), x1 = hn::Iota(d, 1.0f), x2 = hn::Iota(d, 2.0f);
  V x3 = hn::Iota(d, 3.0f), x4 = hn::Iota(d, 4.0f), x5 = hn::Iota(d, 5.0f);
  V x6 = hn::Iota(d, 6.0f), x7 = hn::Iota(d, 7.0f), x8 = hn::Iota(d, 8.0f);
  V x9 = hn::Iota(d, 9.0f), x10 = hn::Iota(d, 10.0f), x11 = hn::Iota(d, 11.0f);
  for (int64_t i = 0; i < kRounds; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
    x10 = hn::MulAdd(x10, a, b);
    x11 = hn::MulAdd(x11, a, b);
  }
  const V low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const V high = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  benchmark::DoNotOptimize(sum);
  return 2.0 * kChains * static_cast<double>(kRounds) * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth {

HWY_EXPORT(MultiplyAddLanes);

double MultiplyAdd() { return HWY_DYNAMIC_DISPATCH(MultiplyAddLanes)(); }

}  // namespace zeroth
#endif  // HWY_ONCE
