// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/device/offload_store.h"

namespace zeroth {

// Opens an OffloadStore in a file without a name, which the system frees however the process ends.
// Disk blocks are allocated when a region is reserved. Transfers are plain reads and writes on the
// stream's thread, through the page cache. The system empties that cache when memory is short, so
// it does not count as this process's memory.
//
// Errors name the directory: NotFound or PermissionDenied if no file can be created there,
// ResourceExhausted if it has no room, DataLoss if the file has become shorter, or the system's
// error of a failed transfer.
absl::StatusOr<std::shared_ptr<OffloadStore>> OpenFileStore(const OffloadStoreOptions& options);

}  // namespace zeroth
