// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for training state that does not fit a device's own memory: host memory under a GPU, files
// under a CPU ("ZeRO-Offload", Ren et al., 2021; "ZeRO-Infinity", Rajbhandari et al., 2021).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth {

class Stream;

// A region of a store, initially zeros. Transfers are work of the given stream: those on one stream
// run in order, and a failure is that stream's error. Calls may come from any thread. Bytes that
// are written while another stream reads or writes them are undefined.
class OffloadRegion {
 public:
  // No transfer may be running.
  virtual ~OffloadRegion() = default;
  OffloadRegion(const OffloadRegion&) = delete;
  OffloadRegion& operator=(const OffloadRegion&) = delete;

  int64_t bytes() const { return bytes_; }

  // Run asynchronously on `stream`, which belongs to the store's device. The device memory must
  // stay valid until they have run. [offset, offset + bytes) must lie inside the region.
  virtual absl::Status Read(int64_t offset, void* dst, size_t bytes, Stream& stream) = 0;
  virtual absl::Status Write(int64_t offset, const void* src, size_t bytes, Stream& stream) = 0;

 protected:
  explicit OffloadRegion(int64_t bytes) : bytes_(bytes) {}

 private:
  int64_t bytes_;
};

struct OffloadStats {
  int64_t reserved_bytes = 0;  // outside of the device's memory and of its account
  // Bytes of successful transfers so far. If the device runs behind the host, transfers count when
  // they are enqueued, and not again when a recording plays them.
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

struct OffloadStoreOptions {
  // The directory of a store in files. Empty: the system's directory for temporary files.
  std::string directory;
};

// One rank's further memory, from Device::CreateOffloadStore. The system frees it when the process
// ends, however it ends. Thread-safe.
class OffloadStore {
 public:
  virtual ~OffloadStore() = default;

  // Reserves `bytes` of zeros. A store without enough room fails here, and not when they are
  // written. The region keeps alive what it needs of the store. ResourceExhausted says how much was
  // requested, where, and how much the store had already.
  virtual absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) = 0;
  virtual OffloadStats stats() const = 0;
};

}  // namespace zeroth
