// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/host_floats.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"

namespace zeroth {
namespace {

class HostFloatsTest : public testing::Test {
 protected:
  Tensor Make(int64_t numel, DType dtype) {
    return *Tensor::Zeros(*device_, Shape({numel}), dtype, MemoryCategory::kWorkspace);
  }
  const std::shared_ptr<Device> device_ = *DeviceRegistry::Create("cpu", DeviceOptions());
};

TEST_F(HostFloatsTest, RoundsOnceOnTheWayInAndNeverOnTheWayOut) {
  const std::vector<float> values = {0, -1, 1.0f + 0x1p-7f, 1.0f + 0x1p-12f, 3e-6f, -65504.0f};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Tensor tensor = Make(6, dtype);
    ASSERT_EQ(SetFromHostFloats(values, tensor), absl::OkStatus());
    const auto read = ToHostFloats(tensor);
    ASSERT_TRUE(read.ok()) << read.status();
    std::vector<float> expected = values;
    for (float& value : expected) {
      if (dtype == DType::kBFloat16) value = ToFloat(ToBFloat16(value));
      if (dtype == DType::kFloat16) value = ToFloat(ToFloat16(value));
    }
    EXPECT_EQ(*read, expected);
    EXPECT_EQ(*read == values, dtype == DType::kFloat32);
  }
  EXPECT_EQ(SetFromHostFloats({}, Make(0, DType::kBFloat16)), absl::OkStatus());
}

TEST_F(HostFloatsTest, SetsAPartOfAState) {
  const Tensor tensor = Make(4, DType::kBFloat16);
  ASSERT_EQ(SetFromHostFloats(*device_, {1.0f + 0x1p-12f, -2}, tensor, 1), absl::OkStatus());
  EXPECT_EQ(*ToHostFloats(tensor), (std::vector<float>{0, 1, -2, 0}));
  EXPECT_TRUE(absl::IsInvalidArgument(SetFromHostFloats(*device_, {1}, Make(2, DType::kInt32), 0)));
}

TEST_F(HostFloatsTest, RefusesOtherTypesAndCounts) {
  const Tensor whole_numbers = Make(2, DType::kInt32);
  EXPECT_TRUE(absl::IsInvalidArgument(ToHostFloats(whole_numbers).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SetFromHostFloats({1, 2}, whole_numbers)));
  const absl::Status count = SetFromHostFloats({1, 2, 3}, Make(2, DType::kBFloat16));
  EXPECT_TRUE(absl::IsInvalidArgument(count));
  EXPECT_NE(count.message().find("2 elements set to 3"), std::string::npos) << count;
}

}  // namespace
}  // namespace zeroth
