// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cpu {

// InvalidArgument unless the offsets of `experts` experts rise from 0 to `rows`, since the inner
// loops do not check them.
inline absl::Status CheckOffsets(const int32_t* offsets, size_t experts, int64_t rows) {
  bool right = offsets[0] == 0 && offsets[experts] == rows;
  for (size_t e = 0; e < experts; ++e) right = right && offsets[e] <= offsets[e + 1];
  if (right) return absl::OkStatus();
  return InvalidArgument("mixture of experts: offsets do not go from 0 up to ", rows, " rows");
}

}  // namespace zeroth::cpu
