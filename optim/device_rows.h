// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// A step's scalars as rows of floats in device memory, from which a step that is recorded once and
// replayed many times reads them. Used by one rank's thread only.
template <typename RowOf>
class DeviceRows {
 public:
  // Allocates `count` rows. The device outlives them.
  absl::Status Allocate(Device& device, size_t count) {
    static_assert(sizeof(RowOf) % sizeof(float) == 0);
    rows_.resize(count);
    ZEROTH_ASSIGN_OR_RETURN(on_device_,
                            Tensor::Empty(device, Shape({static_cast<int64_t>(count), kFloats}),
                                          DType::kFloat32, MemoryCategory::kWorkspace));
    return absl::OkStatus();
  }

  // Returns the host's rows, to be written, once the previous step's rows have been copied.
  absl::StatusOr<std::vector<RowOf>*> Rows() {
    if (copied_ != nullptr) ZEROTH_RETURN_IF_ERROR(copied_->Synchronize());
    copied_ = nullptr;
    return &rows_;
  }
  // Enqueues the copy to the device.
  absl::Status Upload(Stream& stream) {
    ZEROTH_RETURN_IF_ERROR(on_device_.device().CopyFromHost(on_device_.raw_data(), rows_.data(),
                                                            rows_.size() * sizeof(RowOf), stream));
    ZEROTH_ASSIGN_OR_RETURN(copied_, stream.Record());
    return absl::OkStatus();
  }
  // Returns a row in device memory.
  Tensor Row(size_t row) const {
    return on_device_.View(static_cast<int64_t>(row) * kFloats, Shape({kFloats}));
  }

 private:
  static constexpr int64_t kFloats = static_cast<int64_t>(sizeof(RowOf) / sizeof(float));

  std::vector<RowOf> rows_;
  Tensor on_device_;
  std::shared_ptr<Event> copied_;  // nullptr if no copy is in flight
};

}  // namespace zeroth
