// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Flat training state that lies in a device's memory or beyond it, and is read and written in
// ranges either way.

#ifndef ZEROTH_CORE_TENSOR_STATE_TENSOR_H_
#define ZEROTH_CORE_TENSOR_STATE_TENSOR_H_

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

// [numel] elements of one type in an OffloadRegion of its own. A handle, as a Tensor is: copies
// share the bytes. Undefined by default.
class OffloadedTensor {
 public:
  OffloadedTensor() = default;
  // Zeros; the store's errors if it has no room.
  static absl::StatusOr<OffloadedTensor> Zeros(OffloadStore& store, int64_t numel, DType dtype);

  bool defined() const { return region_ != nullptr; }
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  // The same bytes, read from now on as as many elements of a type that needs no more of them;
  // aborts if the region is too small.
  OffloadedTensor As(DType dtype) const;

  // Elements [begin, begin + the tensor's numel), as work of `stream`. Aborts unless these lie
  // inside and the types are equal.
  absl::Status Read(int64_t begin, const Tensor& dst, Stream& stream) const;
  absl::Status Write(int64_t begin, const Tensor& src, Stream& stream) const;

 private:
  // Where element `begin` of `numel` starts in the region.
  int64_t Offset(int64_t begin, int64_t numel, DType dtype) const;

  std::shared_ptr<OffloadRegion> region_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
};

// One of the two: what an optimizer, a gradient norm or a checkpoint works on without asking where
// it is. A handle.
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
  // The tensor itself, undefined if it is offloaded.
  const Tensor& tensor() const { return tensor_; }

  // As OffloadedTensor's; in memory they are copies.
  absl::Status Read(int64_t begin, const Tensor& dst, Stream& stream) const;
  absl::Status Write(int64_t begin, const Tensor& src, Stream& stream) const;

 private:
  Tensor tensor_;
  OffloadedTensor offloaded_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_TENSOR_STATE_TENSOR_H_
