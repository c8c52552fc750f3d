// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/matrix.h"

#include <memory>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

class MatrixTest : public testing::Test {
 protected:
  Tensor Zeros(const Shape& shape) {
    return *Tensor::Zeros(*device_, shape, DType::kFloat32, MemoryCategory::kActivations);
  }
  std::shared_ptr<Device> device_ = *DeviceRegistry::Create("cpu", DeviceOptions{});
};

TEST_F(MatrixTest, LeadingDimensionsAreRows) {
  const Matrix matrix(Zeros({2, 3, 5}));
  EXPECT_EQ(matrix.rows, 6);
  EXPECT_EQ(matrix.cols, 5);
  EXPECT_EQ(matrix.stride, 5);
  EXPECT_EQ(matrix.offset, 0);
  EXPECT_EQ(Matrix(Zeros({7})).rows, 1);
  EXPECT_EQ(Matrix(Zeros({7})).cols, 7);
  EXPECT_EQ(Matrix(Zeros({})).cols, 1);
  EXPECT_EQ(Matrix(Zeros({4, 0})).rows, 4);
  EXPECT_EQ(Matrix(Tensor()).rows, 0);
}

TEST_F(MatrixTest, ColumnsKeepRowsAndStride) {
  const Tensor tensor = Zeros({4, 10});
  const Matrix inner = Matrix(tensor).Columns(2, 7).Columns(1, 3);
  EXPECT_EQ(inner.rows, 4);
  EXPECT_EQ(inner.cols, 3);
  EXPECT_EQ(inner.stride, 10);
  EXPECT_EQ(inner.data<float>(), tensor.data<float>() + 3);
}

TEST_F(MatrixTest, ColumnsOutsideAbort) {
  EXPECT_DEATH(Matrix(Zeros({4, 10})).Columns(8, 3), "invariant");
}

}  // namespace
}  // namespace zeroth
