// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/buffer_set.h"

#include <algorithm>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/shard_layout.h"

namespace zeroth {

absl::StatusOr<Tensor> Allocate(Device& device, int64_t numel, DType dtype, MemoryCategory category,
                                Stream& writer) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(device, Shape({numel}), dtype, category));
  if (&writer == &device.compute_stream()) return tensor;
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> free, device.compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(writer.Wait(free));
  return tensor;
}

int64_t PackedBytes(absl::Span<const PackedTensor> tensors) {
  int64_t bytes = 0;
  for (const PackedTensor& in : tensors) bytes += AlignedBytes(in.numel, in.dtype);
  return bytes;
}

std::vector<Tensor> PackedIn(const Tensor& buffer, absl::Span<const PackedTensor> tensors) {
  std::vector<Tensor> views(tensors.size());
  int64_t offset = 0;
  for (size_t i = 0; i < views.size() && buffer.defined(); ++i) {
    views[i] = buffer.ViewAs(offset, Shape({tensors[i].numel}), tensors[i].dtype);
    offset += AlignedBytes(tensors[i].numel, tensors[i].dtype);
  }
  return views;
}

absl::Status BufferSet::Free(Used used) {
  if (used.last_use == nullptr) return absl::OkStatus();
  const absl::Status status = device_.compute_stream().Wait(used.last_use);
  if (!status.ok()) kept_.push_back(std::move(used));
  FreeDone();
  return status;
}

void BufferSet::FreeDone() {
  std::erase_if(kept_, [](const Used& kept) { return kept.last_use->IsDone(); });
}

BufferSet::BufferSet(Device& device, MemoryCategory category, std::vector<int64_t> sizes, int limit)
    : device_(device), category_(category), limit_(limit) {
  ZEROTH_CHECK(!sizes.empty());
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const int64_t bytes : sizes) classes_.push_back({bytes});
}

BufferSet::SizeClass* BufferSet::ClassOf(int64_t bytes) {
  for (SizeClass& in : classes_) {
    if (in.bytes >= bytes) return &in;
  }
  return nullptr;
}

int64_t BufferSet::SizeFor(int64_t bytes) {
  const SizeClass* const in = ClassOf(bytes);
  return in == nullptr ? bytes : in->bytes;
}

bool BufferSet::HasRoom(int64_t bytes) {
  const SizeClass* const in = ClassOf(bytes);
  return in != nullptr && (!in->free.empty() || in->in_use < limit_);
}

absl::StatusOr<Tensor> BufferSet::Acquire(int64_t bytes, Stream& stream) {
  SizeClass* const in = ClassOf(bytes);
  if (in != nullptr && !in->free.empty() &&
      in->in_use + static_cast<int>(in->free.size()) >= limit_) {
    // The wait comes first: after an error the buffer has to stay here, since its last user may
    // still be running.
    Used& oldest = in->free.front();
    if (oldest.last_use != nullptr) ZEROTH_RETURN_IF_ERROR(stream.Wait(oldest.last_use));
    Tensor buffer = std::move(oldest.buffer);
    in->free.pop_front();
    ++in->in_use;
    return buffer;
  }
  const int64_t size = SizeFor(bytes);
  Tensor buffer;
  if (in != nullptr && in->in_use < limit_) {
    ZEROTH_ASSIGN_OR_RETURN(buffer, AllocateRegistered(size));
  }
  if (!buffer.defined()) {
    ZEROTH_ASSIGN_OR_RETURN(buffer, Allocate(device_, size, DType::kUInt8, category_, stream));
  }
  if (in != nullptr) ++in->in_use;
  return buffer;
}

absl::StatusOr<Tensor> BufferSet::AllocateRegistered(int64_t bytes) {
  if (groups_.empty() || bytes == 0 || !device_.allocator().has_transport_memory()) return Tensor();
  Registered made;
  ZEROTH_ASSIGN_OR_RETURN(
      made.buffer, Tensor::EmptyForTransport(device_, Shape({bytes}), DType::kUInt8, category_));
  for (Communicator* group : groups_) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<MemoryRegistration> registration,
                            group->Register(made.buffer, MemoryCategoryName(category_)));
    if (registration != nullptr) made.with.push_back(std::move(registration));
  }
  if (made.with.empty()) {
    groups_.clear();  // they will not register the next one either
    return Tensor();
  }
  registered_.push_back(std::move(made));
  return registered_.back().buffer;
}

bool BufferSet::IsRegistered(const Tensor& buffer) const {
  return std::any_of(registered_.begin(), registered_.end(), [&](const Registered& registered) {
    return registered.buffer.buffer() == buffer.buffer();
  });
}

void BufferSet::Release(Tensor buffer, std::shared_ptr<Event> last_use) {
  const auto bytes = static_cast<int64_t>(buffer.bytes());
  SizeClass* const in = ClassOf(bytes);
  if (in != nullptr) {
    ZEROTH_CHECK(in->bytes == bytes && in->in_use > 0);
    --in->in_use;
    if (in->in_use + static_cast<int>(in->free.size()) < limit_ || IsRegistered(buffer)) {
      in->free.push_back({std::move(buffer), std::move(last_use)});
      return;
    }
  }
  // A stream that has failed reports its error itself.
  Free({std::move(buffer), std::move(last_use)}).IgnoreError();
}

absl::Status BufferSet::Trim() {
  FreeDone();
  absl::Status status;
  for (SizeClass& in : classes_) {
    std::deque<Used> registered;
    for (Used& slot : in.free) {
      if (IsRegistered(slot.buffer)) {
        registered.push_back(std::move(slot));
      } else {
        status.Update(Free(std::move(slot)));
      }
    }
    in.free = std::move(registered);
  }
  return status;
}

absl::StatusOr<Tensor> StreamScratch::TakeBytes(int64_t bytes, Stream& comm) {
  if (!memory_.defined() || memory_.numel() < bytes) {
    if (memory_.defined()) {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> last_use, comm.Record());
      ZEROTH_RETURN_IF_ERROR(device_.compute_stream().Wait(last_use));
      memory_ = Tensor();
    }
    ZEROTH_ASSIGN_OR_RETURN(memory_, Allocate(device_, bytes, DType::kUInt8, category_, comm));
    stream_ = &comm;
  }
  return memory_.View(0, Shape({bytes}));
}

absl::StatusOr<Tensor> StreamScratch::Take(int64_t numel, Stream& comm) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor memory,
                          TakeBytes(numel * static_cast<int64_t>(SizeOf(DType::kFloat32)), comm));
  return memory.ViewAs(0, Shape({numel}), DType::kFloat32);
}

absl::Status StreamScratch::Trim() {
  if (!memory_.defined()) return absl::OkStatus();
  const Tensor memory = std::exchange(memory_, Tensor());
  // The compute stream must not get memory that enqueued work still uses.
  absl::Status status;
  const absl::StatusOr<std::shared_ptr<Event>> last_use = stream_->Record();
  status.Update(last_use.status());
  if (last_use.ok()) status.Update(device_.compute_stream().Wait(*last_use));
  if (!status.ok()) status.Update(stream_->Synchronize());
  return status;
}

}  // namespace zeroth
