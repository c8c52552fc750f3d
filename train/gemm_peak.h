// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_GEMM_PEAK_H_
#define ZEROTH_TRAIN_GEMM_PEAK_H_

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Floating-point operations per second that all ranks together reach on a large square product of
// `dtype` matrices, all computing at once: what model FLOP utilisation is measured against.
// Collective; the best of several rounds, well under a second each. 0 if some rank has no memory
// left for such matrices, which is no reason not to train.
absl::StatusOr<double> MeasureGemmPeak(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_GEMM_PEAK_H_
