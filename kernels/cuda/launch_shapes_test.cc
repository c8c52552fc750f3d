// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/launch_shapes.h"

#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

TEST(LaunchShapesTest, AMapHasNoMoreBlocksThanTheDeviceHolds) {
  EXPECT_EQ(MapShape(1, 132).grid.x, 1u);
  EXPECT_EQ(MapShape(256, 132).grid.x, 1u);
  EXPECT_EQ(MapShape(257, 132).grid.x, 2u);
  EXPECT_EQ(MapShape(int64_t{1} << 40, 132).grid.x, 132u * 6);
  EXPECT_EQ(MapShape(int64_t{1} << 40, 132, 3).grid.x, 132u * 3);
  EXPECT_TRUE(MapShape(0, 132).empty());
}

TEST(LaunchShapesTest, RowsAreDealtToWarps) {
  EXPECT_EQ(WarpPerRowShape(9, 4).grid.x, 3u);
  EXPECT_EQ(WarpPerRowShape(9, 4).block.x, 128u);
  EXPECT_TRUE(WarpPerRowShape(0, 4).empty());
}

TEST(LaunchShapesTest, PiecesDependOnRowsAlone) {
  EXPECT_EQ(RowPieces(0), 1);
  EXPECT_EQ(RowPieces(64), 1);
  EXPECT_EQ(RowPieces(65), 2);
  EXPECT_EQ(RowPieces(1 << 20), 128);
}

TEST(LaunchShapesTest, WhatCudaCannotLaunchIsRefused) {
  const auto code = [](const LaunchShape& shape) {
    return CheckLaunchShape("kernel", shape, size_t{100} << 10).code();
  };
  EXPECT_EQ(code({dim3(1), dim3(1024)}), absl::StatusCode::kOk);
  EXPECT_EQ(code({dim3(1), dim3(1025)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({dim3(1), dim3(1, 1, 65)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({dim3(1, 65536), dim3(32)}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({dim3(0x7fffffff, 65535, 65535), dim3(32)}), absl::StatusCode::kOk);
  EXPECT_EQ(code({dim3(1), dim3(32), (100 << 10) + 1}), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth::cuda
