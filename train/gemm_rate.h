// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_GEMM_RATE_H_
#define ZEROTH_TRAIN_GEMM_RATE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Seconds that `work` takes on the device's compute stream: the median of `rounds` rounds, each of
// which does it so many `times`. All ranks begin a round together, and it ends with the last of
// them: rounds of their own would let ranks that alternate on a core count it twice. Collective;
// all ranks get the same.
absl::StatusOr<double> MedianSeconds(Communicator& world, Device& device,
                                     const std::function<absl::Status()>& work, int rounds,
                                     int times);

// Floating-point operations per second that all ranks together reach on large square products of
// `dtype` matrices, all computing at once: the median of several rounds, each as long as its
// slowest rank takes. It is what this machine did just then, no peak that a vendor states, and a
// step may be faster. Collective, about a second. 0 if some rank has no memory left for such
// matrices, which is no reason not to train.
absl::StatusOr<double> MeasureGemmRate(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_GEMM_RATE_H_
