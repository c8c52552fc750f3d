// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Measures the rates of this machine that plans use.

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/planned/machine.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Measures the floating-point operations per second of all ranks together in large square matmuls
// in `dtype`: the median of several rounds, each as long as its slowest rank. This is a
// measurement, not a vendor's peak, and a step may be faster. On a device that is emulated, one
// small matmul is measured instead. Collective; about a second. Returns 0 if a rank has no memory
// for such matrices, which need not end the training.
absl::StatusOr<double> MeasureGemmRate(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype);

// Measures the rates that all ranks of `world` reach at the same time, each on its `device` with
// one thread, and sets them in `machine`: the rates of matmuls, of attention, of memory and of
// transfers to host memory, the time to launch a kernel, and the latency and the rates of
// collectives over the back end in use. Each `ranks_per_node` neighbouring ranks are one node.
// Links inside a node are measured if a node has two ranks, and rank 0's node counts; the network
// is measured if there are two nodes. All other fields keep their values. Collective; some seconds.
// Errors of the device, of its kernels and of the collectives.
absl::Status MeasureRanks(Communicator& world, Device& device, int ranks_per_node,
                          Machine& machine);

// Returns the CPUs of this node without measured rates. Links and network have the rates of a 10
// Gb/s network card.
Machine LocalCpu();

// Returns LocalCpu with the rates that MeasureRanks measures on a thread for each core.
absl::StatusOr<Machine> MeasureCpu();

}  // namespace zeroth
