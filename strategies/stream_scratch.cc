// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/stream_scratch.h"

#include <memory>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/buffer_set.h"

namespace zeroth {

absl::StatusOr<Tensor> StreamScratch::TakeBytes(int64_t bytes, Stream& comm) {
  if (!memory_.defined() || memory_.numel() < bytes) {
    ZEROTH_RETURN_IF_ERROR(Trim());
    ZEROTH_ASSIGN_OR_RETURN(memory_, AllocateBytes(device_, bytes, category_, comm));
    stream_ = &comm;
  }
  return memory_.View(0, Shape({bytes}));
}

absl::Status StreamScratch::Trim() {
  if (!memory_.defined()) return absl::OkStatus();
  const Tensor memory = std::exchange(memory_, Tensor());
  // Nothing that the stream has enqueued may lose its memory to the compute stream.
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> last_use, stream_->Record());
  return device_.compute_stream().Wait(last_use);
}

absl::StatusOr<Tensor> StreamScratch::Take(int64_t numel, Stream& comm) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor memory,
                          TakeBytes(numel * static_cast<int64_t>(SizeOf(DType::kFloat32)), comm));
  return memory.ViewAs(0, Shape({numel}), DType::kFloat32);
}

}  // namespace zeroth
