// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For tests: an offload store whose disk fails.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/cpu/cpu_stream.h"
#include "zeroth/core/device/offload_store.h"

namespace zeroth {

// Forwards to `store`, of a CPU device, until `good` transfers have run. Later transfers fail their
// streams with DataLoss.
class FaultyStore final : public OffloadStore {
 public:
  FaultyStore(std::shared_ptr<OffloadStore> store, int64_t good)
      : store_(std::move(store)), left_(std::make_shared<std::atomic<int64_t>>(good)) {}

  absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) override {
    absl::StatusOr<std::shared_ptr<OffloadRegion>> region = store_->Reserve(bytes);
    if (!region.ok()) return region;
    return std::make_shared<Region>(*std::move(region), left_);
  }
  OffloadStats stats() const override { return store_->stats(); }
  // The number of transfers that succeed from now on.
  void set_good(int64_t good) { *left_ = good; }

 private:
  class Region final : public OffloadRegion {
   public:
    Region(std::shared_ptr<OffloadRegion> region, std::shared_ptr<std::atomic<int64_t>> left)
        : OffloadRegion(region->bytes()), region_(std::move(region)), left_(std::move(left)) {}

    absl::Status Read(int64_t offset, void* dst, size_t bytes, Stream& stream) override {
      if (const absl::Status broken = Spend(stream); !broken.ok()) return broken;
      return region_->Read(offset, dst, bytes, stream);
    }
    absl::Status Write(int64_t offset, const void* src, size_t bytes, Stream& stream) override {
      if (const absl::Status broken = Spend(stream); !broken.ok()) return broken;
      return region_->Write(offset, src, bytes, stream);
    }

   private:
    // Counts a transfer when it runs, as a disk would. A failure stops the stream before the
    // transfer.
    absl::Status Spend(Stream& stream) {
      return CpuStream::From(stream).Enqueue([left = left_] {
        return (*left)-- > 0 ? absl::OkStatus() : absl::DataLossError("the disk is broken");
      });
    }

    const std::shared_ptr<OffloadRegion> region_;
    const std::shared_ptr<std::atomic<int64_t>> left_;
  };

  const std::shared_ptr<OffloadStore> store_;
  const std::shared_ptr<std::atomic<int64_t>> left_;
};

}  // namespace zeroth
