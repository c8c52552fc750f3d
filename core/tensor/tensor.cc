// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/tensor.h"

#include <limits>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<Tensor> Tensor::Empty(Device& device, Shape shape, DType dtype,
                                     MemoryCategory category) {
  return EmptyBy(&Allocator::Allocate, device, std::move(shape), dtype, category);
}

absl::StatusOr<Tensor> Tensor::EmptyForTransport(Device& device, Shape shape, DType dtype,
                                                 MemoryCategory category) {
  return EmptyBy(&Allocator::AllocateForTransport, device, std::move(shape), dtype, category);
}

absl::StatusOr<Tensor> Tensor::EmptyBy(Allocate allocate, Device& device, Shape shape, DType dtype,
                                       MemoryCategory category) {
  const size_t count = static_cast<size_t>(shape.numel());
  if (count > std::numeric_limits<size_t>::max() / SizeOf(dtype)) {
    return absl::ResourceExhaustedError(absl::StrCat("a tensor of shape ", shape.ToString(),
                                                     " and type ", DTypeName(dtype),
                                                     " is larger than any address space"));
  }
  Tensor tensor;
  ZEROTH_ASSIGN_OR_RETURN(tensor.buffer_,
                          (device.allocator().*allocate)(count * SizeOf(dtype), category));
  tensor.device_ = &device;
  tensor.shape_ = std::move(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

absl::StatusOr<Tensor> Tensor::Zeros(Device& device, Shape shape, DType dtype,
                                     MemoryCategory category) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor tensor, Empty(device, std::move(shape), dtype, category));
  ZEROTH_RETURN_IF_ERROR(
      device.FillZero(tensor.raw_data(), tensor.bytes(), device.compute_stream()));
  return tensor;
}

absl::StatusOr<Tensor> Tensor::FromHostBytes(Device& device, Shape shape, DType dtype,
                                             const void* values, size_t count,
                                             MemoryCategory category) {
  if (count != static_cast<size_t>(shape.numel())) {
    return InvalidArgument("a tensor of shape ", shape.ToString(), " has ", shape.numel(),
                           " elements, but ", count, " values were given");
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor tensor, Empty(device, std::move(shape), dtype, category));
  Stream& stream = device.compute_stream();
  ZEROTH_RETURN_IF_ERROR(device.CopyFromHost(tensor.raw_data(), values, tensor.bytes(), stream));
  ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
  return tensor;
}

absl::Status Tensor::CopyToHostBytes(DType expected, void* out) const {
  if (expected != dtype_) {
    return InvalidArgument("a tensor of ", DTypeName(dtype_), " cannot be read as ",
                           DTypeName(expected), "; convert it first");
  }
  Stream& stream = device().compute_stream();
  ZEROTH_RETURN_IF_ERROR(device().CopyToHost(out, raw_data(), bytes(), stream));
  return stream.Synchronize();
}

void* Tensor::raw_data() const {
  ZEROTH_CHECK(defined());
  return static_cast<std::byte*>(buffer_->data()) + byte_offset_;
}

Tensor Tensor::View(int64_t offset, Shape shape) const {
  ZEROTH_CHECK(defined());
  ZEROTH_CHECK(offset >= 0 && offset <= numel() && shape.numel() <= numel() - offset);
  Tensor view = *this;
  view.byte_offset_ += static_cast<size_t>(offset) * SizeOf(dtype_);
  view.shape_ = std::move(shape);
  return view;
}

Tensor Tensor::ViewAs(int64_t byte_offset, Shape shape, DType dtype) const {
  ZEROTH_CHECK(defined());
  const auto available = static_cast<int64_t>(bytes());
  const auto element_bytes = static_cast<int64_t>(SizeOf(dtype));
  ZEROTH_CHECK(byte_offset >= 0 && byte_offset <= available);
  ZEROTH_CHECK(shape.numel() <= (available - byte_offset) / element_bytes);
  Tensor view = *this;
  view.byte_offset_ += static_cast<size_t>(byte_offset);
  // Buffers start aligned for every type, so the offset alone decides.
  ZEROTH_CHECK(view.byte_offset_ % SizeOf(dtype) == 0);
  view.shape_ = std::move(shape);
  view.dtype_ = dtype;
  return view;
}

Tensor Tensor::Reshape(Shape shape) const {
  ZEROTH_CHECK(shape.numel() == numel());
  return View(0, std::move(shape));
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  ZEROTH_CHECK(shape_.rank() >= 1);
  ZEROTH_CHECK(0 <= begin && begin <= end && end <= dim(0));
  // Not numel() / dim(0): there may be no rows.
  const int64_t row_elements = Shape(shape_.dims().subspan(1)).numel();
  return View(begin * row_elements, shape_.With(0, end - begin));
}

}  // namespace zeroth
