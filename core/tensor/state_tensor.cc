// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/state_tensor.h"

#include <limits>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

int64_t ElementBytes(DType dtype) { return static_cast<int64_t>(SizeOf(dtype)); }

}  // namespace

absl::StatusOr<OffloadedTensor> OffloadedTensor::Zeros(OffloadStore& store, int64_t numel,
                                                       DType dtype) {
  ZEROTH_CHECK(numel >= 0);
  if (numel > std::numeric_limits<int64_t>::max() / ElementBytes(dtype)) {
    return absl::ResourceExhaustedError(absl::StrCat(numel, " elements of ", DTypeName(dtype),
                                                     " are more than any store can have"));
  }
  OffloadedTensor tensor;
  ZEROTH_ASSIGN_OR_RETURN(tensor.region_, store.Reserve(numel * ElementBytes(dtype)));
  tensor.numel_ = numel;
  tensor.dtype_ = dtype;
  return tensor;
}

OffloadedTensor OffloadedTensor::As(DType dtype) const {
  ZEROTH_CHECK(defined());
  ZEROTH_CHECK(numel_ * ElementBytes(dtype) <= region_->bytes());
  OffloadedTensor view = *this;
  view.dtype_ = dtype;
  return view;
}

int64_t OffloadedTensor::Offset(int64_t begin, int64_t numel, DType dtype) const {
  ZEROTH_CHECK(defined());
  ZEROTH_CHECK(dtype == dtype_);
  ZEROTH_CHECK(begin >= 0 && begin <= numel_ && numel <= numel_ - begin);
  return begin * ElementBytes(dtype_);
}

absl::Status OffloadedTensor::Read(int64_t begin, const Tensor& dst, Stream& stream) const {
  const int64_t offset = Offset(begin, dst.numel(), dst.dtype());
  return region_->Read(offset, dst.raw_data(), dst.bytes(), stream);
}

absl::Status OffloadedTensor::Write(int64_t begin, const Tensor& src, Stream& stream) const {
  const int64_t offset = Offset(begin, src.numel(), src.dtype());
  return region_->Write(offset, src.raw_data(), src.bytes(), stream);
}

absl::Status StateTensor::Read(int64_t begin, const Tensor& dst, Stream& stream) const {
  if (is_offloaded()) return offloaded_.Read(begin, dst, stream);
  ZEROTH_CHECK(dst.dtype() == tensor_.dtype());
  const Tensor src = tensor_.View(begin, Shape({dst.numel()}));
  return tensor_.device().Copy(dst.raw_data(), src.raw_data(), src.bytes(), stream);
}

absl::Status StateTensor::Write(int64_t begin, const Tensor& src, Stream& stream) const {
  if (is_offloaded()) return offloaded_.Write(begin, src, stream);
  ZEROTH_CHECK(src.dtype() == tensor_.dtype());
  const Tensor dst = tensor_.View(begin, Shape({src.numel()}));
  return tensor_.device().Copy(dst.raw_data(), src.raw_data(), src.bytes(), stream);
}

}  // namespace zeroth
