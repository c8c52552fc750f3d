// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The rates of the machine at hand, as plans take them.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/planned/machine.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Measures the floating-point operations per second of all ranks together in large square products
// of `dtype` matrices: the median of several rounds, each as long as its slowest rank takes. This
// is a measurement, not a vendor's peak, and a step may be faster. Collective; takes about a
// second. Returns 0 if a rank has no memory for such matrices, which is no reason not to train.
absl::StatusOr<double> MeasureGemmRate(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype);

// Sets in `machine` what the ranks of `world` reach, all of them at once and each on its `device`
// of one thread: products, attention, memory, the start of a kernel, transfers to host memory, and
// collectives over the back end in use. Neighbouring ranks fill a node, `ranks_per_node` of them:
// at least two measure its links, and a second node the network. What is not measured stays: links
// and network where there are none, memory, multiprocessors and fp8. Collective, some seconds; of
// links rank 0's node counts. Errors of the device, of its kernels and of the collectives.
absl::Status MeasureRanks(Communicator& world, Device& device, int ranks_per_node,
                          Machine& machine);

// This node as CPUs, but for what MeasureRanks measures; of links it says what a network card of
// 10 Gb/s gives.
Machine CpuAtHand();

// The same measured by threads, one for each core.
absl::StatusOr<Machine> MeasureCpu();

}  // namespace zeroth
