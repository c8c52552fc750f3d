// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_TENSOR_STATE_HOST_COPY_H_
#define ZEROTH_CORE_TENSOR_STATE_HOST_COPY_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/state_tensor.h"

namespace zeroth {

// Copy elements [begin, begin + count) of `state`, in their own type, to host memory or back.
// `state` belongs to `device`. Offloaded state passes through the device's memory in pieces of at
// most 4 MiB. Synchronous, on the compute stream. The range must lie inside the state.
absl::Status CopyStateToHost(Device& device, const StateTensor& state, int64_t begin, int64_t count,
                             void* host);
absl::Status CopyStateFromHost(Device& device, const void* host, const StateTensor& state,
                               int64_t begin, int64_t count);

}  // namespace zeroth

#endif  // ZEROTH_CORE_TENSOR_STATE_HOST_COPY_H_
