// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Training state in a store outside of the device's memory ("ZeRO-Offload", Ren et al., 2021;
// "ZeRO-Infinity", Rajbhandari et al., 2021).

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/offload_store.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/strategies/state_passes.h"

namespace zeroth {

struct OffloadOptions {
  bool parameters = false;  // the shards, read for every gather
  bool gradients = false;   // what the optimizer reads, written after every reduction
  bool optimizer = false;   // moments
  // The directory of the device's store, see OffloadStoreOptions.
  std::string directory;
  // Elements of each kind of state that pass through memory at a time, which bounds the staging
  // memory for any model. At least 1; multiples of 16 keep chunks aligned.
  int64_t chunk_numel = int64_t{1} << 18;
  // Replaces the device's store; `directory` must then be empty.
  std::shared_ptr<OffloadStore> store;

  bool any() const { return parameters || gradients || optimizer; }
};

// One rank's offloaded state. Used by one rank's thread only.
class Offload {
 public:
  // InvalidArgument if the options do not fit, or errors of the store. `device` and `timeline`
  // outlive the result. Marks transfers in `timeline`, unless that is nullptr.
  static absl::StatusOr<std::unique_ptr<Offload>> Create(Device& device,
                                                         const OffloadOptions& options,
                                                         Timeline* timeline = nullptr);

  const OffloadOptions& options() const { return options_; }
  // Reserves [numel] zeros in the store; errors name `what`. Aborts if nothing is offloaded.
  absl::StatusOr<StateTensor> Reserve(int64_t numel, DType dtype, absl::string_view what);
  StatePasses& passes() { return *passes_; }
  // All zeros if nothing is offloaded.
  OffloadStats stats() const { return store_ == nullptr ? OffloadStats() : store_->stats(); }

 private:
  explicit Offload(const OffloadOptions& options) : options_(options) {}

  OffloadOptions options_;
  std::shared_ptr<OffloadStore> store_;  // nullptr if nothing is offloaded
  std::unique_ptr<StatePasses> passes_;
  Timeline* timeline_ = nullptr;
};

}  // namespace zeroth
