// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Flat training state, in a device's memory or offloaded. Both are read and written in ranges.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/offload_store.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Elements in memory, as a Tensor, or in a separate OffloadRegion. So optimizers, gradient norms
// and checkpoints need not know where the state is. A handle, as Tensor is: copies share the bytes.
// Undefined by default.
class StateTensor {
 public:
  StateTensor() = default;
  StateTensor(Tensor tensor)  // NOLINT: a tensor is state
      : tensor_(std::move(tensor)), numel_(tensor_.numel()), dtype_(tensor_.dtype()) {}
  // Reserves `numel` zeros in the store. Returns the store's error if it has no room.
  static absl::StatusOr<StateTensor> Offloaded(OffloadStore& store, int64_t numel, DType dtype);

  bool defined() const { return tensor_.defined() || is_offloaded(); }
  bool is_offloaded() const { return region_ != nullptr; }
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  int64_t bytes() const { return numel() * static_cast<int64_t>(SizeOf(dtype())); }
  // The tensor; undefined if the state is offloaded.
  const Tensor& tensor() const { return tensor_; }
  // Views the bytes of offloaded state as the same number of elements of another type. Aborts if
  // the region is too small for them, or for a View that does not begin with it.
  StateTensor As(DType dtype) const;
  // Views the elements [begin, begin + numel). Aborts unless they lie inside.
  StateTensor View(int64_t begin, int64_t numel) const;

  // Read or write the elements [begin, begin + the tensor's numel), as work of `stream`. Abort
  // unless they lie inside and the types are equal.
  absl::Status Read(int64_t begin, const Tensor& dst, Stream& stream) const;
  absl::Status Write(int64_t begin, const Tensor& src, Stream& stream) const;

 private:
  // Returns the offset of element `begin` in bytes, in memory or in the region. Checks that the
  // elements of `other` from there on lie inside.
  int64_t Offset(int64_t begin, const Tensor& other) const;

  Tensor tensor_;
  std::shared_ptr<OffloadRegion> region_;
  int64_t begin_ = 0;  // in the region
  int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
};

// Copy elements [begin, begin + count) of `state`, in their own type, to host memory or back.
// `state` belongs to `device`. Offloaded state passes through the device's memory in pieces of at
// most 4 MiB. Synchronous, on the compute stream. The range must lie inside the state.
absl::Status CopyStateToHost(Device& device, const StateTensor& state, int64_t begin, int64_t count,
                             void* host);
absl::Status CopyStateFromHost(Device& device, const void* host, const StateTensor& state,
                               int64_t begin, int64_t count);

}  // namespace zeroth
