// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plans the launches of a step with many ranges. Each launch works through a table of ranges, as
// those of NVIDIA's Apex and of PyTorch's foreach optimizers do.
//
// A table is the kernel's parameter, passed by value. It is copied when the kernel is enqueued or
// recorded, and read through the constant cache. Its 4 KiB hold kAdamWRanges ranges, so that
// GPT-2's 148 parameters take four launches. A table in device memory would need only one launch.
// But each launch, and each replay of a recorded step, would need a copy from pinned memory, which
// would have to live until the copy is done.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// A row of a table.
struct AdamWRange : AdamWArrays {
  int32_t set = 0;  // index into the table's coefficients, unless `on_device`
  // True if packs of four elements are aligned at every multiple of four, and pairs of draws begin
  // there.
  bool packed = false;
};

// Sets of host scalars in a table. Two suffice for most callers: for parameters that decay, and for
// the others. (The optimizer's scalars lie on the device.)
inline constexpr int kAdamWSets = 4;
inline constexpr int kAdamWRanges =
    static_cast<int>((kKernelParameterBytes - kAdamWSets * sizeof(AdamWCoefficients) -
                      sizeof(const float*) - sizeof(int64_t)) /
                     sizeof(AdamWRange));

// The parameter of a launch.
struct AdamWTable {
  AdamWCoefficients coefficients[kAdamWSets] = {};
  const float* grad_factor = nullptr;
  int32_t sets = 0;
  int32_t count = 0;  // of ranges
  AdamWRange ranges[kAdamWRanges] = {};
};
static_assert(sizeof(AdamWTable) <= kKernelParameterBytes);

// Number of elements of a range that a thread block processes at a time, except at the range's end.
// Each thread has four, whose loads in flight hide the latency (more would cost registers). With
// 8-bit moments, a warp then has one block of moments.
inline constexpr int kAdamWWidth = 4;
inline constexpr int64_t kAdamWTile = int64_t{kMapThreads} * kAdamWWidth;

struct AdamWLaunch {
  AdamWTypes types;
  int64_t tiles = 0;  // of all ranges
  AdamWTable table;
};

// Puts every call into the first launch of its types and grad_factor that has room for it, and
// drops empty calls. Calls must not depend on one another's results.
std::vector<AdamWLaunch> PlanAdamW(absl::Span<const AdamWRangeCall> calls);

}  // namespace zeroth::cuda
