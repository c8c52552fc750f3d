// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_PINNED_STORE_H_
#define ZEROTH_CORE_DEVICE_CUDA_PINNED_STORE_H_

#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/device/offload_store.h"

namespace zeroth::cuda {

// Opens an OffloadStore in page-locked memory of the host, which a GPU's copy engines read and
// write while kernels run. Transfers may be recorded, because the memory never moves.
// InvalidArgument if the options name a directory, since the store has no files. Its Reserve
// returns ResourceExhausted if the host can lock no more memory. `device` outlives the store and
// its regions.
absl::StatusOr<std::shared_ptr<OffloadStore>> OpenPinnedStore(Device& device,
                                                              const OffloadStoreOptions& options);

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_PINNED_STORE_H_
