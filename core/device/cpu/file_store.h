// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CPU_FILE_STORE_H_
#define ZEROTH_CORE_DEVICE_CPU_FILE_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/device/offload_store.h"

namespace zeroth {

// An OffloadStore in a file without a name, so that the system takes it back whatever becomes of
// the process. Its blocks are allocated when they are reserved. Transfers are plain reads and
// writes on the stream's thread, through the page cache, which the system empties under pressure:
// that is what keeps them off this process's account.
//
// Errors name the directory: NotFound or PermissionDenied if no file can be made there,
// ResourceExhausted if it has no room, DataLoss if the file has become shorter, and the system's
// for a transfer that fails.
absl::StatusOr<std::shared_ptr<OffloadStore>> OpenFileStore(const OffloadStoreOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_CPU_FILE_STORE_H_
