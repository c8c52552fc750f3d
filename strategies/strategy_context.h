// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/types/span.h"

#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The objects that a strategy uses. All outlive it.
struct StrategyContext {
  Device* device = nullptr;
  Mesh* mesh = nullptr;  // for groups that the strategy makes; a unit's are in Unit::mesh
  absl::Span<Unit* const> units;
  // Buffers for full parameters and full gradients. After a failed step the scheduler reclaims all
  // of them, and between steps it returns unused ones to the allocator.
  FullBuffers* gathered = nullptr;
  FullBuffers* gradients = nullptr;
  // Kernels that round parameters and gradients on the streams of Gather and SyncGradients; nullptr
  // if everything is fp32.
  Kernels* gather_kernels = nullptr;
  Kernels* reduce_kernels = nullptr;
  // A second stream for SyncGradients, with its kernels: for reductions across groups, so that the
  // next unit's reduction inside its group need not wait for them. Unit::MarkReduced's event must
  // follow the work on both streams. nullptr if no unit is reduced across groups.
  Stream* across_stream = nullptr;
  Kernels* across_kernels = nullptr;
  Timeline* timeline = nullptr;  // SchedulerOptions::timeline
};

}  // namespace zeroth
