// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {
namespace {

constexpr MemoryCategory kCategory = MemoryCategory::kActivations;

class TensorTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::shared_ptr<Device>> device = DeviceRegistry::Create("cpu", {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  // 0, 1, 2, … in the given shape.
  Tensor Counting(Shape shape) {
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    std::iota(values.begin(), values.end(), 0.0f);
    absl::StatusOr<Tensor> tensor =
        Tensor::FromHost<float>(*device_, std::move(shape), values, kCategory);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return *std::move(tensor);
  }

  int64_t bytes_in_use() { return device_->allocator().stats().total.current_bytes; }

  std::shared_ptr<Device> device_;
};

TEST_F(TensorTest, DefaultIsUndefined) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_EQ(tensor.buffer(), nullptr);
}

TEST_F(TensorTest, EmptyHasTheRightStorage) {
  const auto tensor = Tensor::Empty(*device_, {3, 5}, DType::kBFloat16, MemoryCategory::kGradients);
  ASSERT_TRUE(tensor.ok());
  EXPECT_TRUE(tensor->defined());
  EXPECT_EQ(tensor->shape(), Shape({3, 5}));
  EXPECT_EQ(tensor->dim(-1), 5);
  EXPECT_EQ(tensor->numel(), 15);
  EXPECT_EQ(tensor->dtype(), DType::kBFloat16);
  EXPECT_EQ(tensor->bytes(), 30u);
  EXPECT_EQ(&tensor->device(), device_.get());
  EXPECT_EQ(tensor->buffer()->category(), MemoryCategory::kGradients);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->raw_data()) % 64, 0u);
  EXPECT_EQ(device_->allocator().stats()[MemoryCategory::kGradients].current_bytes, 30);
}

TEST_F(TensorTest, EmptyRefusesWhatNoMachineHolds) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const DType dtype : {DType::kInt64, DType::kUInt8}) {
    const auto tensor = Tensor::Empty(*device_, {kMax}, dtype, kCategory);
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kResourceExhausted) << tensor.status();
  }
}

TEST_F(TensorTest, ZerosOverwritesReusedMemory) {
  for (int round = 0; round < 2; ++round) {
    const auto tensor = Tensor::Zeros(*device_, {7, 9}, DType::kInt32, kCategory);
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(*tensor->ToHost<int32_t>(), std::vector<int32_t>(63, 0));
    std::fill_n(tensor->data<int32_t>(), 63, -1);
  }
}

template <typename T>
void ExpectRoundTrip(Device& device, const std::vector<T>& values) {
  const auto tensor =
      Tensor::FromHost<T>(device, {static_cast<int64_t>(values.size())}, values, kCategory);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype(), DTypeOf<T>::value);
  const auto back = tensor->template ToHost<T>();
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, values);
}

TEST_F(TensorTest, HostRoundTrip) {
  ExpectRoundTrip<float>(*device_, {1.5f, -2.0f, 0x1p-149f});
  ExpectRoundTrip<int32_t>(*device_, {1, -1, std::numeric_limits<int32_t>::min()});
  ExpectRoundTrip<int64_t>(*device_, {1, -1, std::numeric_limits<int64_t>::max()});
  ExpectRoundTrip<uint8_t>(*device_, {0, 255});
  ExpectRoundTrip<float>(*device_, {});
}

TEST_F(TensorTest, FromHostCopies) {
  std::vector<float> values = {1, 2};
  const auto tensor = Tensor::FromHost<float>(*device_, {2}, values, kCategory);
  ASSERT_TRUE(tensor.ok());
  values[0] = 9;
  EXPECT_EQ(*tensor->ToHost<float>(), (std::vector<float>{1, 2}));
}

TEST_F(TensorTest, FromHostRefusesAWrongCount) {
  const std::vector<float> values = {1, 2, 3};
  const auto tensor = Tensor::FromHost<float>(*device_, {2, 2}, values, kCategory);
  EXPECT_EQ(tensor.status(),
            absl::InvalidArgumentError(
                "a tensor of shape [2, 2] has 4 elements, but 3 values were given"));
  EXPECT_EQ(bytes_in_use(), 0);
}

TEST_F(TensorTest, ToHostRefusesAnotherType) {
  const auto status = Counting({2}).ToHost<int32_t>().status();
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        "a tensor of fp32 cannot be read as int32; convert it first"));
}

TEST_F(TensorTest, ScalarAndEmptyShapes) {
  EXPECT_EQ(*Counting({}).ToHost<float>(), (std::vector<float>{0}));
  const Tensor none = Counting({0, 4});
  EXPECT_TRUE(none.defined());
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_TRUE(none.ToHost<float>()->empty());
  EXPECT_EQ(none.Rows(0, 0).shape(), Shape({0, 4}));
  EXPECT_EQ(none.View(0, {0}).numel(), 0);
  EXPECT_EQ(none.Reshape({7, 0}).shape(), Shape({7, 0}));
}

TEST_F(TensorTest, ViewsShareStorage) {
  const Tensor base = Counting({4, 6});
  const Tensor view = base.View(5, {2, 3});
  EXPECT_EQ(view.buffer(), base.buffer());
  EXPECT_EQ(*view.ToHost<float>(), (std::vector<float>{5, 6, 7, 8, 9, 10}));
  view.data<float>()[0] = 50;
  EXPECT_EQ(base.data<float>()[5], 50);
  // Offsets of nested views add up.
  EXPECT_EQ(view.View(4, {2}).data<float>(), base.data<float>() + 9);
  EXPECT_EQ(view.Rows(1, 2).data<float>(), base.data<float>() + 8);
}

TEST_F(TensorTest, ViewOffsetsCountElements) {
  const std::vector<int64_t> values = {10, 11, 12, 13};
  const auto tensor = Tensor::FromHost<int64_t>(*device_, {4}, values, kCategory);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(*tensor->View(2, {2}).ToHost<int64_t>(), (std::vector<int64_t>{12, 13}));
}

TEST_F(TensorTest, ViewMayTouchTheEnd) {
  const Tensor base = Counting({10});
  EXPECT_EQ(*base.View(9, {}).ToHost<float>(), (std::vector<float>{9}));
  EXPECT_EQ(base.View(10, {0}).numel(), 0);
}

TEST_F(TensorTest, ReshapeAndRows) {
  const Tensor base = Counting({4, 6});
  EXPECT_EQ(base.Reshape({2, 12}).shape(), Shape({2, 12}));
  EXPECT_EQ(base.Reshape({24}).data<float>(), base.data<float>());
  const Tensor rows = base.Rows(1, 3);
  EXPECT_EQ(rows.shape(), Shape({2, 6}));
  EXPECT_EQ(rows.data<float>(), base.data<float>() + 6);
  EXPECT_EQ(base.Rows(4, 4).shape(), Shape({0, 6}));
  EXPECT_EQ(Counting({5}).Rows(2, 4).shape(), Shape({2}));
}

TEST_F(TensorTest, ViewAsReadsTheSameBytesAsAnotherType) {
  const absl::StatusOr<Tensor> bytes =
      Tensor::Empty(*device_, Shape({64}), DType::kUInt8, kCategory);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const Tensor floats = bytes->ViewAs(16, Shape({2, 6}), DType::kFloat32);
  EXPECT_EQ(floats.raw_data(), bytes->data<uint8_t>() + 16);
  EXPECT_EQ(floats.shape(), Shape({2, 6}));
  EXPECT_EQ(floats.dtype(), DType::kFloat32);
  EXPECT_EQ(bytes->ViewAs(64, Shape({0}), DType::kFloat32).numel(), 0);
}

TEST_F(TensorTest, StorageLivesAsLongAsTheLastView) {
  Tensor base = Counting({100});
  Tensor view = base.View(50, {10});
  base = Tensor();
  EXPECT_EQ(bytes_in_use(), 400);
  EXPECT_EQ(view.data<float>()[0], 50);
  view = Tensor();
  EXPECT_EQ(bytes_in_use(), 0);
}

using TensorDeathTest = TensorTest;

TEST_F(TensorDeathTest, OutOfRangeViewsAbort) {
  const Tensor base = Counting({4, 6});
  EXPECT_DEATH(base.View(-1, {1}), "invariant violated");
  EXPECT_DEATH(base.View(20, {5}), "invariant violated");
  EXPECT_DEATH(base.View(25, {0}), "invariant violated");
  EXPECT_DEATH(base.Reshape({5, 5}), "invariant violated");
  EXPECT_DEATH(base.Rows(-1, 2), "invariant violated");
  EXPECT_DEATH(base.Rows(3, 2), "invariant violated");
  EXPECT_DEATH(base.Rows(0, 5), "invariant violated");
  EXPECT_DEATH(Counting({}).Rows(0, 0), "invariant violated");
  // A view does not reach into the rest of the storage.
  EXPECT_DEATH(base.View(0, {6}).View(0, {7}), "invariant violated");
}

TEST_F(TensorDeathTest, ViewAsAbortsOutsideOrMisaligned) {
  const absl::StatusOr<Tensor> bytes =
      Tensor::Empty(*device_, Shape({64}), DType::kUInt8, kCategory);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_DEATH(bytes->ViewAs(52, Shape({4}), DType::kFloat32), "invariant");
  EXPECT_DEATH(bytes->ViewAs(-4, Shape({1}), DType::kFloat32), "invariant");
  EXPECT_DEATH(bytes->ViewAs(2, Shape({1}), DType::kFloat32), "invariant");
}

TEST_F(TensorDeathTest, WrongTypeAndUndefinedAbort) {
  EXPECT_DEATH(Counting({2}).data<int32_t>(), "invariant violated");
  EXPECT_DEATH(Tensor().raw_data(), "invariant violated");
  EXPECT_DEATH(Tensor().device(), "invariant violated");
  EXPECT_DEATH(Tensor().View(0, {1}), "invariant violated");
}

}  // namespace
}  // namespace zeroth
