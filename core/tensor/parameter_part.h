// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A part of a parameter, such as tensor parallelism leaves to each of its ranks (Shoeybi et al.,
// "Megatron-LM", 2019): which elements of the undivided one it has.

#ifndef ZEROTH_CORE_TENSOR_PARAMETER_PART_H_
#define ZEROTH_CORE_TENSOR_PARAMETER_PART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// The `index`-th of `count` equal shares of a dimension, or of each of its sections: share i of n
// elements is [i * n / count, (i + 1) * n / count), rounded down.
struct ParameterPart {
  std::string axis;  // what it is divided over, by name: an axis of a mesh
  int dim = 0;
  int index = 0;
  int count = 1;
  // Sizes of the sections of the dimension, each of which is divided by itself: {q, k, v} of a
  // fused projection. Empty: one, all of it.
  std::vector<int64_t> sections = {};
};

// Where share `index` of `numel` elements begins; that of the one after the last is their end.
int64_t BeginOfShare(int64_t numel, int index, int count);

// Elements [begin, begin + numel) of a part are [global_begin, global_begin + numel) of the
// undivided parameter, both row-major.
struct ElementRun {
  int64_t global_begin = 0;
  int64_t begin = 0;
  int64_t numel = 0;
};

// The shape of a part of a parameter of shape `global`. InvalidArgument if there is no such
// dimension or share, or the sections do not add up to the dimension.
absl::StatusOr<Shape> ShapeOfPart(const Shape& global, const ParameterPart& part);

// The elements [begin, begin + numel) of a valid part, in order, in as few runs as there are.
std::vector<ElementRun> RunsOfPart(const Shape& global, const ParameterPart& part, int64_t begin,
                                   int64_t numel);

}  // namespace zeroth

#endif  // ZEROTH_CORE_TENSOR_PARAMETER_PART_H_
