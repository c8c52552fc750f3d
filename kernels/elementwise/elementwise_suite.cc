// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class ElementwiseSuite : public KernelsSuite {};

TEST_P(ElementwiseSuite, AddAndScaleAreTheFloatOperations) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 5, 16, 31, 100, 40000}) {
      const std::vector<float> a = RoundTo(dtype, RandomNormal(n));
      const std::vector<float> b = RoundTo(dtype, RandomNormal(n));
      std::vector<float> sum;
      std::vector<float> scaled;
      for (size_t i = 0; i < a.size(); ++i) {
        sum.push_back(a[i] + b[i]);
        scaled.push_back(a[i] * 0.3f);
      }
      sum = RoundTo(dtype, sum);
      const Tensor x = Upload({n}, a, dtype);
      const Tensor y = Upload({n}, b, dtype);
      const Tensor out = Unwritten({n}, dtype);
      ASSERT_TRUE(kernels::Add(kernels(), x, y, out).ok());
      EXPECT_EQ(Download(out), sum);
      ASSERT_TRUE(kernels::Add(kernels(), x, y, y).ok());
      EXPECT_EQ(Download(y), sum);
      ASSERT_TRUE(kernels::Scale(kernels(), x, 0.3f).ok());
      EXPECT_EQ(Download(x), RoundTo(dtype, scaled));
    }
  }
}

TEST_P(ElementwiseSuite, LerpIsThreeFloatOperationsOnEachElement) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 5, 16, 31, 100, 40000}) {
      for (const float weight : {0.0f, 0.3f, 1.0f, 1e-4f}) {
        const std::vector<float> from = RoundTo(dtype, RandomNormal(n));
        const std::vector<float> to = RoundTo(dtype, RandomNormal(n));
        std::vector<float> expected;
        for (size_t i = 0; i < from.size(); ++i) {
          const float difference = to[i] - from[i];
          const float part = weight * difference;
          expected.push_back(from[i] + part);
        }
        const Tensor x = Upload({n}, from, dtype);
        const Tensor target = Upload({n}, to, dtype);
        ASSERT_TRUE(kernels::Lerp(kernels(), x, target, weight).ok());
        EXPECT_EQ(Download(x), RoundTo(dtype, expected));
        EXPECT_EQ(Download(target), to);
      }
    }
  }
}

// Ties, carries into the exponent, subnormals, overflow and NaN: every value that rounding could
// treat in its own way.
TEST_P(ElementwiseSuite, StoresRoundToNearestEven) {
  std::vector<float> a;
  std::vector<float> b;
  for (const float base : {1.0f, -1.0f, 1.0078125f, 1.9921875f, 0x1p-126f, 0x1.fep127f, 3.0f}) {
    for (const float part : {0.0f, 0x1p-9f, 0x1.02p-9f, 0x1p-8f, 0x1.02p-8f, 0x1.8p-8f, 0x1p-7f}) {
      a.push_back(base);
      b.push_back(RoundTo(DType::kBFloat16, {base * part})[0]);
    }
  }
  a.insert(a.end(), {0x1p-133f, -0x1p-133f, 0.0f, -0.0f, std::nanf("")});
  b.insert(b.end(), {0x1p-133f, 0x1p-132f, -0.0f, -0.0f, 1.0f});
  std::vector<float> sum;
  for (size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  sum = RoundTo(DType::kBFloat16, sum);
  const Shape shape{static_cast<int64_t>(a.size())};
  const Tensor out = Unwritten(shape, DType::kBFloat16);
  ASSERT_TRUE(kernels::Add(kernels(), Upload(shape, a, DType::kBFloat16),
                           Upload(shape, b, DType::kBFloat16), out)
                  .ok());
  const std::vector<float> actual = Download(out);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(sum[i])) {
      EXPECT_TRUE(std::isnan(actual[i]));
      continue;
    }
    EXPECT_EQ(actual[i], sum[i]) << a[i] << " + " << b[i];
    EXPECT_EQ(std::signbit(actual[i]), std::signbit(sum[i])) << a[i] << " + " << b[i];
  }
}

TEST_P(ElementwiseSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2, 3}, std::vector<float>(6));
  const Tensor y = Upload({3, 2}, std::vector<float>(6));
  ExpectInvalid(kernels::Add(kernels(), x, y, x), {"Add", "b is [3, 2], expected [2, 3]"});
  ExpectInvalid(kernels::Add(kernels(), x, x, Tensor()), {"Add", "out is undefined"});
  ExpectInvalid(kernels::Add(kernels(), x, x, Unwritten({2, 3}, DType::kBFloat16)),
                {"Add", "out is bf16, expected fp32 as a"});
  ExpectInvalid(kernels::Scale(kernels(), UploadTokens({1}, {1}), 2.0f),
                {"Scale", "x is int32, expected fp32, bf16 or fp16"});
  ExpectInvalid(kernels::Lerp(kernels(), x, y, 0.5f),
                {"Lerp", "target is [3, 2], expected [2, 3]"});
}

TEST_P(ElementwiseSuite, RefusesAnotherDevicesTensors) {
  const absl::StatusOr<std::shared_ptr<Device>> other =
      DeviceRegistry::Create(GetParam(), DeviceOptions{});
  ASSERT_TRUE(other.ok());
  const absl::StatusOr<Tensor> foreign =
      Tensor::Zeros(**other, {2}, DType::kFloat32, MemoryCategory::kActivations);
  ASSERT_TRUE(foreign.ok());
  ExpectInvalid(kernels::Scale(kernels(), *foreign, 2.0f), {"Scale", "x is on", "this rank's own"});
}

INSTANTIATE_TEST_SUITE_P(Devices, ElementwiseSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
