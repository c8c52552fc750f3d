// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/parameter_part.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

std::vector<int64_t> SectionsOf(const Shape& global, const ParameterPart& part) {
  return part.sections.empty() ? std::vector<int64_t>{global.dim(part.dim)} : part.sections;
}

// Returns the part's share of each section, in indices of the divided dimension.
std::vector<ElementRun> SharesOf(const Shape& global, const ParameterPart& part) {
  std::vector<ElementRun> shares;
  int64_t section_begin = 0;
  int64_t begin = 0;
  for (const int64_t section : SectionsOf(global, part)) {
    const int64_t from = BeginOfShare(section, part.index, part.count);
    const int64_t numel = BeginOfShare(section, part.index + 1, part.count) - from;
    shares.push_back({section_begin + from, begin, numel});
    section_begin += section;
    begin += numel;
  }
  return shares;
}

}  // namespace

int64_t BeginOfShare(int64_t numel, int index, int count) {
  return numel / count * index + numel % count * index / count;
}

absl::StatusOr<Shape> ShapeOfPart(const Shape& global, const ParameterPart& part) {
  if (part.dim < 0 || part.dim >= global.rank()) {
    return InvalidArgument("cannot divide dimension ", part.dim, " of ", global.ToString(),
                           ": there is none");
  }
  if (part.count < 1 || part.index < 0 || part.index >= part.count) {
    return InvalidArgument("part ", part.index, " of ", part.count,
                           ": expected one of 0 to count - 1");
  }
  const std::vector<int64_t> sections = SectionsOf(global, part);
  int64_t sum = 0;
  for (const int64_t section : sections) sum += section;
  if (sum != global.dim(part.dim) || *std::min_element(sections.begin(), sections.end()) < 0) {
    return InvalidArgument("sections ", absl::StrJoin(sections, " + "),
                           " do not add up to dimension ", part.dim, " of ", global.ToString());
  }
  const ElementRun last = SharesOf(global, part).back();
  return global.With(part.dim, last.begin + last.numel);
}

std::vector<ElementRun> RunsOfPart(const Shape& global, const ParameterPart& part, int64_t begin,
                                   int64_t numel) {
  const std::vector<ElementRun> shares = SharesOf(global, part);
  int64_t inner = 1;  // elements for each index of the dimension
  for (int i = part.dim + 1; i < global.rank(); ++i) inner *= global.dim(i);
  const int64_t global_row = global.dim(part.dim) * inner;
  const int64_t row = (shares.back().begin + shares.back().numel) * inner;
  std::vector<ElementRun> runs;
  const int64_t end = begin + numel;
  while (begin < end) {
    const int64_t in_row = begin % row;
    const auto share = std::find_if(shares.begin(), shares.end(), [&](const ElementRun& candidate) {
      return in_row < (candidate.begin + candidate.numel) * inner;
    });
    const int64_t left = (share->begin + share->numel) * inner - in_row;
    const int64_t global_begin =
        begin / row * global_row + (share->global_begin - share->begin) * inner + in_row;
    const int64_t count = std::min(left, end - begin);
    if (!runs.empty() && runs.back().global_begin + runs.back().numel == global_begin) {
      runs.back().numel += count;
    } else {
      runs.push_back({global_begin, begin, count});
    }
    begin += count;
  }
  return runs;
}

}  // namespace zeroth
