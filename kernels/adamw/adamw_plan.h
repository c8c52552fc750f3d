// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Into which launches a step of many ranges is cut: the table that a launch of NVIDIA's Apex or of
// PyTorch's foreach optimizers works through, here as a pure value.
//
// A table is passed by value, as the kernel's parameter. One in device memory could be of any
// length and would make every step one launch, but takes a copy from page-locked memory before each
// launch and that memory's life until the copy is done, at every replay too where the step is
// recorded. A parameter is copied when it is enqueued or recorded, and read through the constant
// cache. Its 4 KiB hold kAdamWRanges ranges: all of GPT-2's 148 parameters take four launches.

#ifndef ZEROTH_KERNELS_ADAMW_ADAMW_PLAN_H_
#define ZEROTH_KERNELS_ADAMW_ADAMW_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// A row of a table.
struct AdamWRange {
  int64_t count = 0;
  void* param = nullptr;
  const void* grad = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  float* m_scale = nullptr;
  float* v_scale = nullptr;
  uint64_t stream = 0;
  int64_t first_element = 0;
  const AdamWCoefficients* on_device = nullptr;  // or null: coefficients[set] of the table
  int32_t set = 0;
  // Elements may be loaded in packs of four from every multiple of four on, and draws come in pairs
  // from there.
  bool packed = false;
};

// Sets of scalars that come from the host. The optimizer's lie on the device; who calls with
// scalars has one set for parameters that decay and one for the rest.
inline constexpr int kAdamWSets = 4;
inline constexpr int kAdamWRanges =
    static_cast<int>((kKernelParameterBytes - kAdamWSets * sizeof(AdamWCoefficients) -
                      sizeof(const float*) - sizeof(int64_t)) /
                     sizeof(AdamWRange));

// What a launch is told.
struct AdamWTable {
  AdamWCoefficients coefficients[kAdamWSets] = {};
  const float* grad_factor = nullptr;
  int32_t sets = 0;
  int32_t count = 0;  // of ranges
  AdamWRange ranges[kAdamWRanges] = {};
};
static_assert(sizeof(AdamWTable) <= kKernelParameterBytes);

// Elements of a range that a thread block takes at a time, the range's last ones excepted: four for
// a thread, whose loads together hide the memory's latency (more cost registers), and as many
// warps' blocks of 8-bit moments.
inline constexpr int kAdamWWidth = 4;
inline constexpr int64_t kAdamWTile = int64_t{kMapThreads} * kAdamWWidth;

struct AdamWLaunch {
  DType param_dtype = DType::kFloat32;
  DType grad_dtype = DType::kFloat32;
  DType moment_dtype = DType::kFloat32;
  int64_t tiles = 0;  // of all ranges
  AdamWTable table;
};

// Every call in the first launch of its types and grad_factor that has room for it; empty ones in
// none. Calls must not depend on one another's results, as the ranges of a step do not.
std::vector<AdamWLaunch> PlanAdamW(absl::Span<const AdamWRangeCall> calls);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ADAMW_ADAMW_PLAN_H_
