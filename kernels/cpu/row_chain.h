// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ROW_CHAIN_H_
#define ZEROTH_KERNELS_CPU_ROW_CHAIN_H_

#include <cstdint>

namespace zeroth::cpu {

// An ordered list of rows, of which one knows the next: by a table, or at a fixed distance.
struct RowChain {
  const int32_t* next = nullptr;  // of every row, -1 for none; null for a fixed distance
  int64_t step = 0;
  int64_t count = 0;  // of all rows

  // The row after `row`, or -1.
  int64_t Next(int64_t row) const {
    if (next != nullptr) return next[row];
    return row + step < count ? row + step : -1;
  }
};

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ROW_CHAIN_H_
