// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/planned/planned_kernels.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/rope/rope_tables.h"

namespace zeroth {
namespace {

// The cost of the tables' computation, in the first step, is not planned.
absl::Status Rope(Kernels& kernels, const RopeCall& call, CallTensors) {
  auto& planned = static_cast<PlannedKernels&>(kernels);
  const int64_t rotated = call.batch * call.seq * call.heads * call.rotary_dim;
  ZEROTH_RETURN_IF_ERROR(planned.Note("RoPE", {.bytes = 2 * static_cast<double>(rotated) *
                                                        static_cast<double>(SizeOf(call.dtype))}));
  const auto make = [&](size_t bytes) {
    return kernels.device().allocator().Allocate(bytes, MemoryCategory::kWorkspace);
  };
  return kernels.Kept<RopeTables>().Get(call, make).status();
}
const KernelTable<RopeCall>::Registration rope(kPlannedDeviceType, Rope);

}  // namespace
}  // namespace zeroth
