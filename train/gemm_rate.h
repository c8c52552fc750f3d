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

// Returns the seconds that `work` takes on the device's compute stream: the median over `rounds`
// rounds, each of which does the work `times` times. All ranks begin a round together, and the
// round ends with the last of them; otherwise ranks that share a core would each count it as
// theirs. Collective; all ranks get the same value.
absl::StatusOr<double> MedianSeconds(Communicator& world, Device& device,
                                     const std::function<absl::Status()>& work, int rounds,
                                     int times);

// Measures the floating-point operations per second of all ranks together in large square products
// of `dtype` matrices: the median of several rounds, each as long as its slowest rank takes. This
// is a measurement, not a vendor's peak, and a step may be faster. Collective; takes about a
// second. Returns 0 if a rank has no memory for such matrices, which is no reason not to train.
absl::StatusOr<double> MeasureGemmRate(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_GEMM_RATE_H_
