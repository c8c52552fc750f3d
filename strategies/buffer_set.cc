// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/buffer_set.h"

#include <algorithm>
#include <utility>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

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
  ZEROTH_ASSIGN_OR_RETURN(Tensor buffer, Tensor::Empty(device_, Shape({std::max(bytes, bytes_)}),
                                                       DType::kUInt8, category_));
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
  // A buffer beyond the set goes back to the allocator, whose reuse is not ordered by streams:
  // finish with it first.
  if (last_use != nullptr)
    last_use->Synchronize().IgnoreError();  // the stream reports its own error
}

absl::Status BufferSet::Trim() {
  absl::Status status;
  for (const Free& slot : free_) {
    if (slot.last_use != nullptr) status.Update(slot.last_use->Synchronize());
  }
  free_.clear();
  return status;
}

}  // namespace zeroth
