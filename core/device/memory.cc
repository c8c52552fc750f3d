// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/memory.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

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

namespace {

constexpr size_t kMostHolders = 10;  // holders that a message names

std::string MiB(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

Buffer::Buffer(std::shared_ptr<Allocator> allocator, void* data, size_t bytes,
               MemoryCategory category, MemoryHolder& holder)
    : allocator_(std::move(allocator)),
      data_(data),
      bytes_(bytes),
      category_(category),
      holder_(holder) {
  holder_.bytes[static_cast<size_t>(category_)] += static_cast<int64_t>(bytes_);
}

Buffer::~Buffer() {
  holder_.bytes[static_cast<size_t>(category_)] -= static_cast<int64_t>(bytes_);
  allocator_->FreeRaw(data_, bytes_, category_);
}

void Allocator::EnterPlace(absl::string_view what, absl::string_view of) {
  std::string place = absl::StrCat(what, " ", of);
  std::lock_guard<std::mutex> lock(holders_mutex_);
  MemoryHolder& holder = holders_[place];
  if (holder.place.empty()) holder.place = std::move(place);
  entered_.push_back(&holder);
  holder_ = &holder;
}

void Allocator::LeavePlace() {
  std::lock_guard<std::mutex> lock(holders_mutex_);
  // LeaveAllPlaces may have left this one, after an error.
  if (!entered_.empty()) entered_.pop_back();
  holder_ = entered_.empty() ? &outside_ : entered_.back();
}

void Allocator::LeaveAllPlaces() {
  std::lock_guard<std::mutex> lock(holders_mutex_);
  entered_.clear();
  holder_ = &outside_;
}

std::string Allocator::Ledger() const {
  struct Row {
    int64_t bytes;
    absl::string_view category;
    absl::string_view place;
  };
  const MemoryStats now = stats();
  std::vector<std::string> categories;
  for (int i = 0; i < kMemoryCategoryCount; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const int64_t bytes = now[category].current_bytes;
    if (bytes > 0)
      categories.push_back(absl::StrCat(MemoryCategoryName(category), " ", MiB(bytes)));
  }
  std::vector<Row> rows;
  const auto add = [&rows](const MemoryHolder& holder) {
    for (int i = 0; i < kMemoryCategoryCount; ++i) {
      const int64_t bytes = holder.bytes[static_cast<size_t>(i)];
      if (bytes <= 0) continue;
      rows.push_back({bytes, MemoryCategoryName(static_cast<MemoryCategory>(i)), holder.place});
    }
  };
  std::lock_guard<std::mutex> lock(holders_mutex_);
  add(outside_);
  for (const auto& [place, holder] : holders_) add(holder);
  if (rows.empty()) return "";
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  std::string text =
      absl::StrCat("\n  in use: ", absl::StrJoin(categories, ", "), "\n  most of it from:");
  for (size_t i = 0; i < std::min(kMostHolders, rows.size()); ++i) {
    absl::StrAppend(&text, "\n    ", rows[i].place.empty() ? "setting up" : rows[i].place, ": ",
                    MiB(rows[i].bytes), " of ", rows[i].category);
  }
  return text;
}

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
  return absl::UnimplementedError("this device has no memory that a transport can register");
}

absl::StatusOr<std::shared_ptr<Buffer>> Allocator::AllocateBy(Take take, size_t bytes,
                                                              MemoryCategory category) {
  const absl::Status within = CheckLimit(bytes);
  absl::StatusOr<void*> data = within.ok() ? (this->*take)(bytes, category) : within;
  if (!data.ok()) {
    const MemoryStats now = stats();
    const std::string& place = holder_.load()->place;
    const absl::Status error = Annotate(
        data.status(),
        absl::StrCat(kCannotAllocate, " ", bytes, " bytes for ", MemoryCategoryName(category),
                     place.empty() ? "" : absl::StrCat(" in ", place), " (",
                     now.total.current_bytes, " bytes in use, ", now.reserved_bytes, " reserved)"));
    if (!absl::IsResourceExhausted(error)) return error;
    return absl::Status(error.code(), absl::StrCat(error.message(), Ledger()));
  }
  return std::make_shared<Buffer>(shared_from_this(), *data, bytes, category, *holder_.load());
}

}  // namespace zeroth
