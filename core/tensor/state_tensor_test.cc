// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/state_tensor.h"

#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

class StateTensorTest : public testing::TestWithParam<bool> {
 protected:
  StateTensor Make(int64_t numel) {
    if (GetParam()) return *StateTensor::Offloaded(*store_, numel, DType::kFloat32);
    return *Tensor::Zeros(*device_, Shape({numel}), DType::kFloat32, MemoryCategory::kParameters);
  }
  Tensor Values(const std::vector<float>& values) {
    return *Tensor::FromHost<float>(*device_, Shape({static_cast<int64_t>(values.size())}), values,
                                    MemoryCategory::kWorkspace);
  }
  std::vector<float> ToHost(const StateTensor& state, int64_t begin, int64_t numel) {
    const Tensor out =
        *Tensor::Empty(*device_, Shape({numel}), state.dtype(), MemoryCategory::kWorkspace);
    EXPECT_TRUE(state.Read(begin, out, stream()).ok());
    return *out.ToHost<float>();
  }
  Stream& stream() { return device_->compute_stream(); }

  const std::shared_ptr<Device> device_ = *DeviceRegistry::Create("cpu", DeviceOptions());
  const std::shared_ptr<OffloadStore> store_ = *device_->CreateOffloadStore(OffloadStoreOptions());
};

TEST_P(StateTensorTest, IsZeroThenWhatIsWritten) {
  const StateTensor state = Make(7);
  EXPECT_EQ(state.is_offloaded(), GetParam());
  EXPECT_EQ(state.tensor().defined(), !GetParam());
  EXPECT_EQ(state.numel(), 7);
  EXPECT_EQ(state.dtype(), DType::kFloat32);
  EXPECT_EQ(ToHost(state, 0, 7), std::vector<float>(7, 0.0f));
  const StateTensor copy = state;
  ASSERT_TRUE(copy.Write(2, Values({1, 2, 3}), stream()).ok());
  EXPECT_EQ(ToHost(state, 0, 7), (std::vector<float>{0, 0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(ToHost(state, 3, 2), (std::vector<float>{2, 3}));
  EXPECT_TRUE(ToHost(state, 7, 0).empty());
}

TEST_P(StateTensorTest, TwoOfThemShareNothing) {
  const StateTensor first = Make(3);
  const StateTensor none = Make(0);
  const StateTensor second = Make(3);
  EXPECT_TRUE(none.defined());
  ASSERT_TRUE(first.Write(0, Values({1, 2, 3}), stream()).ok());
  ASSERT_TRUE(second.Write(0, Values({4, 5, 6}), stream()).ok());
  EXPECT_EQ(ToHost(first, 0, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(ToHost(second, 0, 3), (std::vector<float>{4, 5, 6}));
}

TEST_P(StateTensorTest, AViewOfAViewSharesTheBytes) {
  const StateTensor state = Make(5);
  ASSERT_TRUE(state.Write(0, Values({1, 2, 3, 4, 5}), stream()).ok());
  const StateTensor view = state.View(1, 4).View(1, 2);
  EXPECT_EQ(view.numel(), 2);
  EXPECT_EQ(view.is_offloaded(), state.is_offloaded());
  EXPECT_EQ(ToHost(view, 0, 2), (std::vector<float>{3, 4}));
  ASSERT_TRUE(view.Write(1, Values({9}), stream()).ok());
  EXPECT_EQ(ToHost(state, 0, 5), (std::vector<float>{1, 2, 3, 9, 5}));
}

INSTANTIATE_TEST_SUITE_P(Where, StateTensorTest, testing::Bool(), [](const auto& instance) {
  return instance.param ? "offloaded" : "in_memory";
});

using StateTensorDeathTest = StateTensorTest;

TEST_P(StateTensorDeathTest, RangesAndTypesThatDoNotFitAreBugs) {
  const StateTensor state = Make(3);
  const Tensor two = Values({1, 2});
  EXPECT_DEATH(state.Write(2, two, stream()).IgnoreError(), "");
  EXPECT_DEATH(state.Read(-1, two, stream()).IgnoreError(), "");
  const Tensor other = two.ViewAs(0, Shape({2}), DType::kInt32);
  EXPECT_DEATH(state.Read(0, other, stream()).IgnoreError(), "");
  EXPECT_DEATH(state.View(2, 2), "");
  EXPECT_DEATH(state.View(1, 2).Write(1, two, stream()).IgnoreError(), "");
}

INSTANTIATE_TEST_SUITE_P(Where, StateTensorDeathTest, testing::Bool());

TEST(StateTensorTest, BytesAreReusedForASmallerTypeAndBack) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions());
  const std::shared_ptr<OffloadStore> store = *device->CreateOffloadStore(OffloadStoreOptions());
  const StateTensor large = *StateTensor::Offloaded(*store, 4, DType::kFloat32);
  const StateTensor small = large.As(DType::kBFloat16);
  EXPECT_EQ(small.numel(), 4);
  EXPECT_EQ(small.dtype(), DType::kBFloat16);
  EXPECT_EQ(small.As(DType::kFloat32).dtype(), DType::kFloat32);
  const StateTensor exact = *StateTensor::Offloaded(*store, 4, DType::kBFloat16);
  EXPECT_DEATH(exact.As(DType::kFloat32), "");
  EXPECT_EQ(large.View(0, 3).As(DType::kBFloat16).numel(), 3);
  EXPECT_DEATH(large.View(1, 3).As(DType::kBFloat16), "");
}

TEST(StateTensorTest, MoreElementsThanThereAreBytesAreRefused) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions());
  const std::shared_ptr<OffloadStore> store = *device->CreateOffloadStore(OffloadStoreOptions());
  const absl::Status status =
      StateTensor::Offloaded(*store, std::numeric_limits<int64_t>::max() / 2, DType::kFloat32)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace zeroth
