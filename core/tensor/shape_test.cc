// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/shape.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace zeroth {
namespace {

TEST(ShapeTest, ScalarHasOneElement) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(ShapeTest, DimensionsAndCount) {
  const Shape shape = {2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(shape.dim(0), 2);
  EXPECT_EQ(shape.dim(2), 5);
  EXPECT_EQ(shape.dim(-1), 5);
  EXPECT_EQ(shape.dim(-3), 2);
  EXPECT_EQ(shape.ToString(), "[2, 3, 5]");
  EXPECT_EQ(Shape({1, 2, 1, 2, 1, 2, 1, 2}).numel(), 16);
}

TEST(ShapeTest, ZeroDimensionMeansNoElements) {
  EXPECT_EQ(Shape({3, 0, 5}).numel(), 0);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Shape({kHuge, kHuge, 0}).numel(), 0);
  EXPECT_EQ(Shape({0, kHuge, kHuge}).numel(), 0);
}

TEST(ShapeTest, EqualityComparesDimensions) {
  EXPECT_EQ(Shape({2, 3}), Shape(std::vector<int64_t>{2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({6}), Shape({2, 3}));
  EXPECT_NE(Shape({1}), Shape());
}

TEST(ShapeTest, WithReplacesOneDimension) {
  EXPECT_EQ(Shape({2, 3, 4}).With(1, 5), Shape({2, 5, 4}));
  EXPECT_EQ(Shape({2, 3, 4}).With(-3, 0), Shape({0, 3, 4}));
}

TEST(ShapeTest, WithLastReplacesTheLastDimensionOnly) {
  EXPECT_EQ(Shape({2, 3}).WithLast(5), Shape({2, 5}));
  EXPECT_EQ(Shape({7}).WithLast(0), Shape({0}));
  EXPECT_EQ(Shape({0, 4}).WithLast(2).numel(), 0);
  EXPECT_EQ(Shape({1, 1, 1, 1, 1, 1, 1, 1}).WithLast(9), Shape({1, 1, 1, 1, 1, 1, 1, 9}));
}

TEST(ShapeTest, MovedAndCopiedShapesKeepTheirCount) {
  Shape shape = {4, 5};
  const Shape copy = shape;
  const Shape moved = std::move(shape);
  EXPECT_EQ(copy.numel(), 20);
  EXPECT_EQ(moved.numel(), 20);
  EXPECT_EQ(moved, copy);
}

TEST(ShapeDeathTest, ImpossibleShapesAbort) {
  EXPECT_DEATH(Shape({2, -1}), "invariant violated");
  EXPECT_DEATH(Shape({0, -1}), "invariant violated");
  EXPECT_DEATH(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), "invariant violated");
  EXPECT_DEATH(Shape({int64_t{1} << 32, int64_t{1} << 31}), "invariant violated");
  EXPECT_DEATH(Shape({2, 3}).dim(2), "invariant violated");
  EXPECT_DEATH(Shape({2, 3}).dim(-3), "invariant violated");
  EXPECT_DEATH(Shape().WithLast(1), "invariant violated");
  EXPECT_DEATH(Shape({2}).With(1, 3), "invariant violated");
}

}  // namespace
}  // namespace zeroth
