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

// What a strategy works with. Everything outlives the strategy.
struct StrategyContext {
  Device* device = nullptr;
  Mesh* mesh = nullptr;  // for groups of the strategy's own; a unit's groups are in Unit::mesh
  absl::Span<Unit* const> units;
  // Buffers for full parameters and full gradients. After a failed step the scheduler takes all of
  // them back, and between steps it returns unused ones to the allocator.
  FullBuffers* gathered = nullptr;
  FullBuffers* gradients = nullptr;
  // Kernels on the streams that Gather and SyncGradients are given, which round parameters and
  // gradients; nullptr if everything is fp32.
  Kernels* gather_kernels = nullptr;
  Kernels* reduce_kernels = nullptr;
  // A second stream for SyncGradients, with its kernels: for reductions across groups, so that the
  // next unit's reduction inside its group need not wait for them. The event that Unit::MarkReduced
  // gets has to come after the work on both streams. nullptr if no unit is reduced across groups.
  Stream* across_stream = nullptr;
  Kernels* across_kernels = nullptr;
  Timeline* timeline = nullptr;  // SchedulerOptions::timeline
};

}  // namespace zeroth
