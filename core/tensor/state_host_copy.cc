// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/state_host_copy.h"

#include <algorithm>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

constexpr int64_t kStagingBytes = int64_t{4} << 20;

// Calls copy(window, done) for one window of elements after the other. `window` is device memory
// for elements of the offloaded state, and `done` is the number of elements before them.
template <typename Copy>
absl::Status ForEachWindow(Device& device, const StateTensor& state, int64_t count,
                           const Copy& copy) {
  const auto size = static_cast<int64_t>(SizeOf(state.dtype()));
  const int64_t most = std::min(count, kStagingBytes / size);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor staging, Tensor::Empty(device, Shape({most}), state.dtype(),
                                                              MemoryCategory::kOffloadStaging));
  for (int64_t done = 0; done < count; done += most) {
    const Tensor window = staging.View(0, Shape({std::min(most, count - done)}));
    ZEROTH_RETURN_IF_ERROR(copy(window, done));
    ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyStateToHost(Device& device, const StateTensor& state, int64_t begin, int64_t count,
                             void* host) {
  if (count == 0) return absl::OkStatus();
  Stream& stream = device.compute_stream();
  if (!state.is_offloaded()) {
    const Tensor source = state.tensor().View(begin, Shape({count}));
    ZEROTH_RETURN_IF_ERROR(device.CopyToHost(host, source.raw_data(), source.bytes(), stream));
    return stream.Synchronize();
  }
  const auto size = static_cast<int64_t>(SizeOf(state.dtype()));
  return ForEachWindow(device, state, count,
                       [&](const Tensor& window, int64_t done) -> absl::Status {
                         ZEROTH_RETURN_IF_ERROR(state.Read(begin + done, window, stream));
                         return device.CopyToHost(static_cast<uint8_t*>(host) + done * size,
                                                  window.raw_data(), window.bytes(), stream);
                       });
}

absl::Status CopyStateFromHost(Device& device, const void* host, const StateTensor& state,
                               int64_t begin, int64_t count) {
  if (count == 0) return absl::OkStatus();
  Stream& stream = device.compute_stream();
  if (!state.is_offloaded()) {
    const Tensor target = state.tensor().View(begin, Shape({count}));
    ZEROTH_RETURN_IF_ERROR(device.CopyFromHost(target.raw_data(), host, target.bytes(), stream));
    return stream.Synchronize();
  }
  const auto size = static_cast<int64_t>(SizeOf(state.dtype()));
  return ForEachWindow(
      device, state, count, [&](const Tensor& window, int64_t done) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(device.CopyFromHost(window.raw_data(),
                                                   static_cast<const uint8_t*>(host) + done * size,
                                                   window.bytes(), stream));
        return state.Write(begin + done, window, stream);
      });
}

}  // namespace zeroth
