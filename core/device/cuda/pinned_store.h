// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_PINNED_STORE_H_
#define ZEROTH_CORE_DEVICE_CUDA_PINNED_STORE_H_

#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/offload_store.h"

namespace zeroth::cuda {

// An OffloadStore in page-locked memory of the host, which a GPU's copy engines read and write
// beside its kernels. Transfers may be recorded: they refer to memory that stays where it is.
// InvalidArgument for a directory, which would mean files. ResourceExhausted where the host has no
// more memory to lock. `device` outlives the store and its regions.
absl::StatusOr<std::shared_ptr<OffloadStore>> OpenPinnedStore(Device& device,
                                                              const OffloadStoreOptions& options);

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_PINNED_STORE_H_
