// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace zeroth::cpu {

// Divides [0, count) into pieces of `grain` and calls body(piece, begin, end) for each, on the
// calling thread's OpenMP team. The pieces do not depend on the number of threads, so neither does
// a sum over each piece. With one thread or one piece no parallel region is entered. `body` must
// not throw.
template <typename Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
  const int64_t pieces = (count + grain - 1) / grain;
  if (pieces <= 1 || omp_get_max_threads() == 1) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      body(piece, piece * grain, std::min(count, (piece + 1) * grain));
    }
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    body(piece, piece * grain, std::min(count, (piece + 1) * grain));
  }
}

// Like ParallelFor, over the concatenation of several ranges of these lengths. Pieces have `grain`
// elements even if ranges are shorter, so a piece may span several ranges. Calls
// body(range, begin, end) for each range that a piece overlaps; begin and end count from the start
// of that range.
template <typename Body>
void ParallelForRanges(absl::Span<const int64_t> lengths, int64_t grain, const Body& body) {
  std::vector<int64_t> ends;
  ends.reserve(lengths.size());
  int64_t total = 0;
  for (const int64_t length : lengths) ends.push_back(total += length);
  ParallelFor(total, grain, [&](int64_t, int64_t begin, int64_t end) {
    auto range =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
    for (int64_t at = begin; at < end; ++range) {
      const int64_t start = ends[range] - lengths[range];
      const int64_t stop = std::min(end, ends[range]);
      if (at < stop) body(range, at - start, stop - start);
      at = stop;
    }
  });
}

// Elements in a piece of elementwise work: few enough to spread a layer's activations over some
// threads, and enough to be worth handing to another core.
inline constexpr int64_t kElementGrain = 32 * 1024;

// Calls piece(call, begin, end) for all pieces of an elementwise call.
template <typename Call>
absl::Status ForPieces(const Call& call, void (*piece)(const Call&, int64_t, int64_t)) {
  ParallelFor(call.count, kElementGrain,
              [&](int64_t, int64_t begin, int64_t end) { piece(call, begin, end); });
  return absl::OkStatus();
}

// Returns the number of rows in a piece of about kElementGrain elements.
inline int64_t RowGrain(int64_t row_elements) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, row_elements));
}

// Calls rows_of(begin, end), or rows_of(call, begin, end), for all pieces of `rows` rows, each of
// about `row_elements` elements.
template <typename Body>
absl::Status ForRows(int64_t rows, int64_t row_elements, const Body& rows_of) {
  ParallelFor(rows, RowGrain(row_elements),
              [&](int64_t, int64_t begin, int64_t end) { rows_of(begin, end); });
  return absl::OkStatus();
}
template <typename Call>
absl::Status ForRows(int64_t rows, int64_t row_elements, const Call& call,
                     void (*rows_of)(const Call&, int64_t, int64_t)) {
  return ForRows(rows, row_elements,
                 [&](int64_t begin, int64_t end) { rows_of(call, begin, end); });
}

}  // namespace zeroth::cpu
