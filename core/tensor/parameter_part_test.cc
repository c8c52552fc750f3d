// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/parameter_part.h"

#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

// Elements of `part` as numbers of the whole's, one index of each dimension at a time.
std::vector<int64_t> ElementsOf(const Shape& whole, const ParameterPart& part) {
  std::vector<bool> has(static_cast<size_t>(whole.dim(part.dim)), false);
  int64_t first = 0;
  const std::vector<int64_t> sections =
      part.sections.empty() ? std::vector<int64_t>{whole.dim(part.dim)} : part.sections;
  for (const int64_t section : sections) {
    for (int64_t i = section * part.index / part.count; i < section * (part.index + 1) / part.count;
         ++i) {
      has[static_cast<size_t>(first + i)] = true;
    }
    first += section;
  }
  std::vector<int64_t> elements;
  for (int64_t element = 0; element < whole.numel(); ++element) {
    int64_t rest = element;
    int64_t at = 0;
    for (int i = whole.rank() - 1; i >= part.dim; --i) {
      at = rest % whole.dim(i);
      rest /= whole.dim(i);
    }
    if (has[static_cast<size_t>(at)]) elements.push_back(element);
  }
  return elements;
}

TEST(ParameterPartTest, RunsAreTheElementsOfThePart) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> dims;
    for (int i = draw(1, 3); i > 0; --i) dims.push_back(draw(0, 7));
    const Shape whole(dims);
    ParameterPart part;
    part.dim = draw(0, whole.rank() - 1);
    part.count = draw(1, 4);
    if (draw(0, 1) == 1) {
      int64_t left = whole.dim(part.dim);
      while (left > 0 || part.sections.empty()) {
        part.sections.push_back(draw(0, static_cast<int>(left)));
        left -= part.sections.back();
      }
    }
    std::set<int64_t> seen;
    for (part.index = 0; part.index < part.count; ++part.index) {
      const std::vector<int64_t> expected = ElementsOf(whole, part);
      const absl::StatusOr<Shape> shape = ShapeOfPart(whole, part);
      ASSERT_TRUE(shape.ok()) << shape.status();
      ASSERT_EQ(shape->numel(), static_cast<int64_t>(expected.size()));
      for (int i = 0; i < whole.rank(); ++i) {
        if (i == part.dim) continue;
        EXPECT_EQ(shape->dim(i), whole.dim(i));
      }
      // Any range of it.
      const int64_t begin = draw(0, static_cast<int>(shape->numel()));
      const int64_t numel = draw(0, static_cast<int>(shape->numel() - begin));
      std::vector<int64_t> found;
      int64_t next = begin;
      for (const ElementRun& run : RunsOfPart(whole, part, begin, numel)) {
        EXPECT_EQ(run.begin, next);
        EXPECT_GT(run.numel, 0);
        EXPECT_TRUE(found.empty() || found.back() + 1 != run.global_begin) << "one run, not two";
        for (int64_t i = 0; i < run.numel; ++i) found.push_back(run.global_begin + i);
        next += run.numel;
      }
      EXPECT_EQ(found,
                std::vector<int64_t>(expected.begin() + begin, expected.begin() + begin + numel));
      seen.insert(expected.begin(), expected.end());
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(whole.numel())) << "parts are the whole";
  }
}

TEST(ParameterPartTest, RefusesInvalidParts) {
  const Shape whole({4, 6});
  const auto expect = [&](const ParameterPart& part, const char* words) {
    const absl::Status status = ShapeOfPart(whole, part).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  expect({.axis = "tensor", .dim = 2, .count = 2}, "dimension 2 of [4, 6]");
  expect({.axis = "tensor", .dim = -1, .count = 2}, "dimension -1");
  expect({.axis = "tensor", .dim = 0, .index = 2, .count = 2}, "part 2 of 2");
  expect({.axis = "tensor", .dim = 0, .index = 0, .count = 0}, "part 0 of 0");
  expect({.axis = "tensor", .dim = 1, .count = 2, .sections = {4, 4}},
         "4 + 4 do not add up to dimension 1");
  expect({.axis = "tensor", .dim = 1, .count = 2, .sections = {8, -2}}, "8 + -2");
}

}  // namespace
}  // namespace zeroth
