// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

// Storage, offset, shape, dtype and device; always contiguous and row-major. Copies and views of a
// Tensor share its storage, which returns to its allocator with the last of them. A
// default-constructed Tensor is undefined (`defined()` is false) and holds nothing. The handle
// itself is a value; its bytes are shared and unsynchronised. A Tensor must not outlive its device.
class Tensor {
 public:
  Tensor() = default;

  // Allocates uninitialised elements. Here and below, ResourceExhausted if the device has no room.
  static absl::StatusOr<Tensor> Empty(Device& device, Shape shape, DType dtype,
                                      MemoryCategory category);
  // Like Empty, in memory that a transport can register (Allocator::AllocateForTransport).
  static absl::StatusOr<Tensor> EmptyForTransport(Device& device, Shape shape, DType dtype,
                                                  MemoryCategory category);
  // Allocates zeros, which are written on the device's compute stream.
  static absl::StatusOr<Tensor> Zeros(Device& device, Shape shape, DType dtype,
                                      MemoryCategory category);
  // Copies host values, synchronously. InvalidArgument if their number is not the shape's.
  template <typename T>
  static absl::StatusOr<Tensor> FromHost(Device& device, Shape shape, absl::Span<const T> values,
                                         MemoryCategory category) {
    return FromHostBytes(device, std::move(shape), DTypeOf<T>::value, values.data(), values.size(),
                         category);
  }

  bool defined() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  size_t bytes() const { return static_cast<size_t>(numel()) * SizeOf(dtype_); }
  Device& device() const {
    ZEROTH_CHECK(device_ != nullptr);
    return *device_;
  }
  // The storage, for code that manages its lifetime; null if undefined.
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  // Returns the address of the first element, in device memory. Aborts if undefined, as do the
  // views below.
  void* raw_data() const;
  // Returns raw_data() as a T*. Aborts if T is not the tensor's type.
  template <typename T>
  T* data() const {
    ZEROTH_CHECK(DTypeOf<T>::value == dtype_);
    return static_cast<T*>(raw_data());
  }

  // Returns the elements of `shape` from element `offset` of this tensor on. Aborts if they exceed
  // the tensor.
  Tensor View(int64_t offset, Shape shape) const;
  // Returns the bytes from `byte_offset` on as elements of another type. Aborts if they exceed the
  // tensor or are misaligned.
  Tensor ViewAs(int64_t byte_offset, Shape shape, DType dtype) const;
  // Returns the same elements with another shape. Aborts unless it has the same number of elements.
  Tensor Reshape(Shape shape) const;
  // Returns rows [begin, end) of dimension 0.
  Tensor Rows(int64_t begin, int64_t end) const;

  // Copies the elements to the host, synchronously, after all work that is enqueued on the device's
  // compute stream. The caller must wait for work on other streams. InvalidArgument if T is not the
  // tensor's type.
  template <typename T>
  absl::StatusOr<std::vector<T>> ToHost() const {
    std::vector<T> out(static_cast<size_t>(numel()));
    absl::Status status = CopyToHostBytes(DTypeOf<T>::value, out.data());
    if (!status.ok()) return status;
    return out;
  }

 private:
  // A pointer to Allocator::Allocate or AllocateForTransport.
  using Allocate = absl::StatusOr<std::shared_ptr<Buffer>> (Allocator::*)(size_t, MemoryCategory);
  static absl::StatusOr<Tensor> EmptyBy(Allocate allocate, Device& device, Shape shape, DType dtype,
                                        MemoryCategory category);
  static absl::StatusOr<Tensor> FromHostBytes(Device& device, Shape shape, DType dtype,
                                              const void* values, size_t count,
                                              MemoryCategory category);
  absl::Status CopyToHostBytes(DType expected, void* out) const;

  std::shared_ptr<Buffer> buffer_;
  Device* device_ = nullptr;
  size_t byte_offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::kFloat32;
};

}  // namespace zeroth
