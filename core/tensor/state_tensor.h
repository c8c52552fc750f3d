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

// `numel` elements of one type in an OffloadRegion of their own. A handle, as Tensor is: copies
// share the bytes. Undefined by default.
class OffloadedTensor {
 public:
  OffloadedTensor() = default;
  // Reserves zeros. Returns the store's error if it has no room.
  static absl::StatusOr<OffloadedTensor> Zeros(OffloadStore& store, int64_t numel, DType dtype);

  bool defined() const { return region_ != nullptr; }
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  // Returns the same bytes as the same number of elements of another type. Aborts if the region is
  // too small for them.
  OffloadedTensor As(DType dtype) const;

  // Read or write the elements [begin, begin + the tensor's numel), as work of `stream`. Abort
  // unless they lie inside and the types are equal.
  absl::Status Read(int64_t begin, const Tensor& dst, Stream& stream) const;
  absl::Status Write(int64_t begin, const Tensor& src, Stream& stream) const;

 private:
  // The offset of element `begin` in the region. Checks that `numel` elements from there lie
  // inside.
  int64_t Offset(int64_t begin, int64_t numel, DType dtype) const;

  std::shared_ptr<OffloadRegion> region_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
};

// A Tensor or an OffloadedTensor, for optimizers, gradient norms and checkpoints, which need not
// know where the state is. A handle.
class StateTensor {
 public:
  StateTensor() = default;
  StateTensor(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: a tensor is state
  StateTensor(OffloadedTensor tensor)                         // NOLINT: as is this
      : offloaded_(std::move(tensor)) {}

  bool defined() const { return tensor_.defined() || offloaded_.defined(); }
  bool is_offloaded() const { return offloaded_.defined(); }
  int64_t numel() const { return is_offloaded() ? offloaded_.numel() : tensor_.numel(); }
  DType dtype() const { return is_offloaded() ? offloaded_.dtype() : tensor_.dtype(); }
  int64_t bytes() const { return numel() * static_cast<int64_t>(SizeOf(dtype())); }
  // The tensor; undefined if the state is offloaded.
  const Tensor& tensor() const { return tensor_; }

  // As OffloadedTensor's. If the state is in memory, these copy.
  absl::Status Read(int64_t begin, const Tensor& dst, Stream& stream) const;
  absl::Status Write(int64_t begin, const Tensor& src, Stream& stream) const;

 private:
  Tensor tensor_;
  OffloadedTensor offloaded_;
};

// Copy elements [begin, begin + count) of `state`, in their own type, to host memory or back.
// `state` belongs to `device`. Offloaded state passes through the device's memory in pieces of at
// most 4 MiB. Synchronous, on the compute stream. The range must lie inside the state.
absl::Status CopyStateToHost(Device& device, const StateTensor& state, int64_t begin, int64_t count,
                             void* host);
absl::Status CopyStateFromHost(Device& device, const void* host, const StateTensor& state,
                               int64_t begin, int64_t count);

}  // namespace zeroth
