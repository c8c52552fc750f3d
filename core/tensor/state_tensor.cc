// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/state_tensor.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

int64_t ElementBytes(DType dtype) { return static_cast<int64_t>(SizeOf(dtype)); }

// Calls copy(window, first, byte) for consecutive windows of elements [begin, begin + count).
// `window` is device memory: the elements themselves or, if they are offloaded, staging for those
// from `first` on. `byte` is their offset in the host's memory.
template <typename Copy>
absl::Status ForEachWindow(Device& device, const StateTensor& state, int64_t begin, int64_t count,
                           const Copy& copy) {
  constexpr int64_t kStagingBytes = int64_t{4} << 20;
  if (count == 0) return absl::OkStatus();
  const int64_t size = ElementBytes(state.dtype());
  int64_t most = count;
  Tensor staging;
  if (state.is_offloaded()) {
    most = std::min(count, kStagingBytes / size);
    ZEROTH_ASSIGN_OR_RETURN(staging, Tensor::Empty(device, Shape({most}), state.dtype(),
                                                   MemoryCategory::kOffloadStaging));
  }
  for (int64_t done = 0; done < count; done += most) {
    const Shape shape({std::min(most, count - done)});
    const Tensor window =
        state.is_offloaded() ? staging.View(0, shape) : state.tensor().View(begin + done, shape);
    ZEROTH_RETURN_IF_ERROR(copy(window, begin + done, done * size));
    ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateTensor> StateTensor::Offloaded(OffloadStore& store, int64_t numel,
                                                   DType dtype) {
  ZEROTH_CHECK(numel >= 0);
  if (numel > std::numeric_limits<int64_t>::max() / ElementBytes(dtype)) {
    return absl::ResourceExhaustedError(absl::StrCat(numel, " elements of ", DTypeName(dtype),
                                                     " are more than any store can have"));
  }
  StateTensor state;
  ZEROTH_ASSIGN_OR_RETURN(state.region_, store.Reserve(numel * ElementBytes(dtype)));
  state.numel_ = numel;
  state.dtype_ = dtype;
  return state;
}

StateTensor StateTensor::As(DType dtype) const {
  ZEROTH_CHECK(is_offloaded());
  ZEROTH_CHECK(begin_ == 0);  // elements of another size begin elsewhere
  ZEROTH_CHECK(numel_ * ElementBytes(dtype) <= region_->bytes());
  StateTensor view = *this;
  view.dtype_ = dtype;
  return view;
}

StateTensor StateTensor::View(int64_t begin, int64_t numel) const {
  ZEROTH_CHECK(begin >= 0 && numel >= 0 && numel <= numel_ && begin <= numel_ - numel);
  if (!is_offloaded()) return tensor_.View(begin, Shape({numel}));
  StateTensor view = *this;
  view.begin_ += begin;
  view.numel_ = numel;
  return view;
}

int64_t StateTensor::Offset(int64_t begin, const Tensor& other) const {
  ZEROTH_CHECK(defined());
  ZEROTH_CHECK(other.dtype() == dtype_);
  ZEROTH_CHECK(begin >= 0 && begin <= numel_ && other.numel() <= numel_ - begin);
  return (begin_ + begin) * ElementBytes(dtype_);
}

absl::Status StateTensor::Read(int64_t begin, const Tensor& dst, Stream& stream) const {
  const int64_t offset = Offset(begin, dst);
  if (is_offloaded()) return region_->Read(offset, dst.raw_data(), dst.bytes(), stream);
  const void* const src = static_cast<const char*>(tensor_.raw_data()) + offset;
  return tensor_.device().Copy(dst.raw_data(), src, dst.bytes(), stream);
}

absl::Status StateTensor::Write(int64_t begin, const Tensor& src, Stream& stream) const {
  const int64_t offset = Offset(begin, src);
  if (is_offloaded()) return region_->Write(offset, src.raw_data(), src.bytes(), stream);
  void* const dst = static_cast<char*>(tensor_.raw_data()) + offset;
  return tensor_.device().Copy(dst, src.raw_data(), src.bytes(), stream);
}

absl::Status CopyStateToHost(Device& device, const StateTensor& state, int64_t begin, int64_t count,
                             void* host) {
  Stream& stream = device.compute_stream();
  return ForEachWindow(device, state, begin, count,
                       [&](const Tensor& window, int64_t first, int64_t byte) -> absl::Status {
                         if (state.is_offloaded())
                           ZEROTH_RETURN_IF_ERROR(state.Read(first, window, stream));
                         return device.CopyToHost(static_cast<uint8_t*>(host) + byte,
                                                  window.raw_data(), window.bytes(), stream);
                       });
}

absl::Status CopyStateFromHost(Device& device, const void* host, const StateTensor& state,
                               int64_t begin, int64_t count) {
  Stream& stream = device.compute_stream();
  return ForEachWindow(
      device, state, begin, count,
      [&](const Tensor& window, int64_t first, int64_t byte) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(device.CopyFromHost(
            window.raw_data(), static_cast<const uint8_t*>(host) + byte, window.bytes(), stream));
        return state.is_offloaded() ? state.Write(first, window, stream) : absl::OkStatus();
      });
}

}  // namespace zeroth
