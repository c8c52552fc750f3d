// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The part of a parameter that a rank holds under tensor parallelism (Shoeybi et al.,
// "Megatron-LM", 2019), and which elements of the undivided parameter it has.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// Share `index` of `count` equal shares of a dimension, or of each of its sections. Share i of n
// elements is [i * n / count, (i + 1) * n / count), rounded down.
struct ParameterPart {
  std::string axis;  // the name of the mesh axis over which the parameter is divided
  int dim = 0;
  int index = 0;
  int count = 1;
  // The sizes of the dimension's sections, each of which is divided on its own: {q, k, v} of a
  // fused projection. Empty: the whole dimension is one section.
  std::vector<int64_t> sections = {};
};

// Returns the begin of share `index` of `numel` elements. That of share `count` is `numel`.
int64_t BeginOfShare(int64_t numel, int index, int count);

// Elements [begin, begin + numel) of a part are [global_begin, global_begin + numel) of the
// undivided parameter, both row-major.
struct ElementRun {
  int64_t global_begin = 0;
  int64_t begin = 0;
  int64_t numel = 0;
};

// Returns the shape of a part of a parameter of shape `global`. InvalidArgument if there is no such
// dimension or share, or the sections do not add up to the dimension.
absl::StatusOr<Shape> ShapeOfPart(const Shape& global, const ParameterPart& part);

// Returns the elements [begin, begin + numel) of a valid part, in order, as the fewest runs.
std::vector<ElementRun> RunsOfPart(const Shape& global, const ParameterPart& part, int64_t begin,
                                   int64_t numel);

}  // namespace zeroth
