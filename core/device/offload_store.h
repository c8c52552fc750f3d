// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where training state lies that a device's own memory is too small for: the host's memory under a
// GPU, files under a CPU ("ZeRO-Offload", Ren et al., 2021; "ZeRO-Infinity", Rajbhandari et al.,
// 2021).

#ifndef ZEROTH_CORE_DEVICE_OFFLOAD_STORE_H_
#define ZEROTH_CORE_DEVICE_OFFLOAD_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth {

class Stream;

// A piece of a store, zero at first. Transfers are work of the stream that they are given: those on
// one stream run in order, and what fails is that stream's error. Calls may come from any thread;
// bytes that are written while another stream reads or writes them are undefined.
class OffloadRegion {
 public:
  // No transfer may be under way.
  virtual ~OffloadRegion() = default;
  OffloadRegion(const OffloadRegion&) = delete;
  OffloadRegion& operator=(const OffloadRegion&) = delete;

  int64_t bytes() const { return bytes_; }

  // Asynchronous on `stream`, of the store's device; device memory must stay valid until it has
  // run. [offset, offset + bytes) lies inside the region.
  virtual absl::Status Read(int64_t offset, void* dst, size_t bytes, Stream& stream) = 0;
  virtual absl::Status Write(int64_t offset, const void* src, size_t bytes, Stream& stream) = 0;

 protected:
  explicit OffloadRegion(int64_t bytes) : bytes_(bytes) {}

 private:
  int64_t bytes_;
};

struct OffloadStats {
  int64_t reserved_bytes = 0;  // outside of the device's memory and of its account
  // By transfers so far, failed ones excepted; where the device runs behind the host they count
  // when they are enqueued, and not again when a recording plays them.
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

struct OffloadStoreOptions {
  // Where the files of a store of files go. Empty: the system's directory for temporary files.
  std::string directory;
};

// One rank's further memory, from Device::CreateOffloadStore. Nothing of it outlives the process,
// however that ends. Thread-safe.
class OffloadStore {
 public:
  virtual ~OffloadStore() = default;

  // `bytes` of zeros, which exist from here on: a store that has no room for them says so now, and
  // not when they are written. The region keeps alive what it needs of the store.
  // ResourceExhausted says how much was asked for, where, and what the store already had.
  virtual absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) = 0;
  virtual OffloadStats stats() const = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_OFFLOAD_STORE_H_
