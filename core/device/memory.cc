// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/memory.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::string_view MemoryCategoryName(MemoryCategory category) {
  static constexpr std::array<const char*, kMemoryCategoryCount> kNames = {
      "parameters",  "gathered_parameters", "gradients", "optimizer",
      "activations", "communication",       "workspace", "offload_staging"};
  const size_t index = static_cast<size_t>(category);
  ZEROTH_CHECK(index < kNames.size());
  return kNames[index];
}

Buffer::Buffer(std::shared_ptr<Allocator> allocator, void* data, size_t bytes,
               MemoryCategory category)
    : allocator_(std::move(allocator)), data_(data), bytes_(bytes), category_(category) {}

Buffer::~Buffer() { allocator_->FreeRaw(data_, bytes_, category_); }

absl::Status Allocator::CheckLimit(size_t bytes) const {
  if (limit_ <= 0) return absl::OkStatus();
  const double over = static_cast<double>(stats().total.current_bytes) +
                      static_cast<double>(bytes) - static_cast<double>(limit_);
  if (over <= 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "that is %.0f bytes above the memory limit of %d; raise the limit, shard over "
      "more ranks, offload state, or use a smaller batch or activation checkpointing",
      over, limit_));
}

absl::StatusOr<std::shared_ptr<Buffer>> Allocator::Allocate(size_t bytes, MemoryCategory category) {
  return AllocateBy(&Allocator::AllocateRaw, bytes, category);
}

absl::StatusOr<std::shared_ptr<Buffer>> Allocator::AllocateForTransport(size_t bytes,
                                                                        MemoryCategory category) {
  return AllocateBy(&Allocator::AllocateTransportRaw, bytes, category);
}

absl::StatusOr<void*> Allocator::AllocateTransportRaw(size_t, MemoryCategory) {
  return absl::UnimplementedError("this device has no memory that collectives can be told of");
}

absl::StatusOr<std::shared_ptr<Buffer>> Allocator::AllocateBy(Take take, size_t bytes,
                                                              MemoryCategory category) {
  const absl::Status within = CheckLimit(bytes);
  absl::StatusOr<void*> data = within.ok() ? (this->*take)(bytes, category) : within;
  if (!data.ok()) {
    const MemoryStats now = stats();
    return Annotate(
        data.status(),
        absl::StrCat("cannot allocate ", bytes, " bytes for ", MemoryCategoryName(category), " (",
                     now.total.current_bytes, " bytes in use, ", now.reserved_bytes, " reserved)"));
  }
  return std::make_shared<Buffer>(shared_from_this(), *data, bytes, category);
}

}  // namespace zeroth
