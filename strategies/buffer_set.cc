// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/buffer_set.h"

#include <algorithm>
#include <utility>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<Tensor> AllocateBytes(Device& device, int64_t bytes, MemoryCategory category,
                                     Stream& writer) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor buffer,
                          Tensor::Empty(device, Shape({bytes}), DType::kUInt8, category));
  if (&writer == &device.compute_stream()) return buffer;
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> free, device.compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(writer.Wait(free));
  return buffer;
}

BufferSet::BufferSet(Device& device, MemoryCategory category, int64_t bytes, int limit)
    : device_(device), category_(category), bytes_(bytes), limit_(limit) {}

absl::StatusOr<Tensor> BufferSet::Acquire(int64_t bytes, Stream& stream) {
  if (bytes <= bytes_ && !free_.empty() && in_use_ + static_cast<int>(free_.size()) >= limit_) {
    // The wait comes first: on error the buffer has to stay here, since its last user may still be
    // at work.
    if (free_.front().last_use != nullptr)
      ZEROTH_RETURN_IF_ERROR(stream.Wait(free_.front().last_use));
    Tensor buffer = std::move(free_.front().buffer);
    free_.pop_front();
    ++in_use_;
    return buffer;
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor buffer,
                          AllocateBytes(device_, std::max(bytes, bytes_), category_, stream));
  ++in_use_;
  return buffer;
}

void BufferSet::Release(Tensor buffer, std::shared_ptr<Event> last_use) {
  ZEROTH_CHECK(in_use_ > 0);
  --in_use_;
  const bool regular = static_cast<int64_t>(buffer.bytes()) == bytes_;
  if (regular && in_use_ + static_cast<int>(free_.size()) < limit_) {
    free_.push_back({std::move(buffer), std::move(last_use)});
    return;
  }
  // The stream reports its own error.
  if (last_use != nullptr) device_.compute_stream().Wait(last_use).IgnoreError();
}

absl::Status BufferSet::Trim() {
  absl::Status status;
  for (const Free& slot : free_) {
    if (slot.last_use != nullptr) status.Update(device_.compute_stream().Wait(slot.last_use));
  }
  free_.clear();
  return status;
}

}  // namespace zeroth
