// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/planned/planned_device.h"

#include <cstring>
#include <string>
#include <utility>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

class PlannedEvent final : public Event {
 public:
  PlannedEvent(WorkLedger& ledger, int entry)
      : ledger_(ledger), epoch_(ledger.epoch()), entry_(entry) {}

  // The work has no real duration.
  bool IsDone() const override { return true; }
  absl::Status Synchronize() const override {
    ledger_.HostWaits(entry());
    return absl::OkStatus();
  }
  absl::StatusOr<double> Seconds() const override {
    const int at = entry();
    return at == WorkLedger::kNothing ? 0.0 : ledger_.entries()[static_cast<size_t>(at)].end;
  }
  int entry() const { return epoch_ == ledger_.epoch() ? entry_ : WorkLedger::kNothing; }

 private:
  WorkLedger& ledger_;
  const int epoch_;
  const int entry_;
};

class PlannedStream final : public Stream {
 public:
  PlannedStream(PlannedDevice& device, absl::string_view name)
      : device_(device), name_(name), number_(device.ledger().AddStream()) {}

  Device& device() const override { return device_; }
  absl::string_view name() const override { return name_; }
  absl::StatusOr<std::shared_ptr<Event>> Record() override {
    return std::make_shared<PlannedEvent>(device_.ledger(), device_.ledger().Last(number_));
  }
  absl::StatusOr<std::shared_ptr<Event>> RecordTime() override { return Record(); }
  absl::Status Wait(const std::shared_ptr<Event>& event) override {
    const int entry = static_cast<const PlannedEvent&>(*event).entry();
    if (entry != WorkLedger::kNothing) device_.ledger().Add(number_, {}, entry);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override {
    device_.ledger().HostWaits(device_.ledger().Last(number_));
    return absl::OkStatus();
  }
  absl::Status status() const override { return absl::OkStatus(); }

  void Add(PlannedWork work) { device_.ledger().Add(number_, std::move(work)); }

 private:
  PlannedDevice& device_;
  const std::string name_;
  const int number_;
};

// Returns the part of the SMs that a collective's kernel leaves to other kernels.
double BesideCollectives(const Machine& machine) {
  if (machine.multiprocessors == 0) return 1;
  return 1 - static_cast<double>(machine.collective_multiprocessors) / machine.multiprocessors;
}

// Offloaded state: it has no memory, and moving it takes time.
class PlannedRegion final : public OffloadRegion {
 public:
  PlannedRegion(int64_t bytes, double bandwidth, std::shared_ptr<OffloadStats> stats)
      : OffloadRegion(bytes), bandwidth_(bandwidth), stats_(std::move(stats)) {}

  absl::Status Read(int64_t, void*, size_t bytes, Stream& stream) override {
    return Move("read offloaded state", bytes, stats_->bytes_read, stream);
  }
  absl::Status Write(int64_t, const void*, size_t bytes, Stream& stream) override {
    return Move("write offloaded state", bytes, stats_->bytes_written, stream);
  }

 private:
  absl::Status Move(const char* label, size_t bytes, int64_t& moved, Stream& stream) {
    moved += static_cast<int64_t>(bytes);
    PlannedDevice::Add(stream, {label, Resource::kHost, static_cast<double>(bytes) / bandwidth_});
    return absl::OkStatus();
  }

  const double bandwidth_;
  const std::shared_ptr<OffloadStats> stats_;
};

class PlannedStore final : public OffloadStore {
 public:
  explicit PlannedStore(double bandwidth) : bandwidth_(bandwidth) {}

  absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) override {
    stats_->reserved_bytes += bytes;
    return std::make_shared<PlannedRegion>(bytes, bandwidth_, stats_);
  }
  OffloadStats stats() const override { return *stats_; }

 private:
  const double bandwidth_;
  const std::shared_ptr<OffloadStats> stats_ = std::make_shared<OffloadStats>();
};

}  // namespace

PlannedAllocator::MemorySnapshot PlannedAllocator::TakeSnapshot() const {
  const MemoryStats& stats = account_.stats();
  MemorySnapshot snapshot;
  snapshot.bytes = stats.total.current_bytes;
  for (size_t i = 0; i < snapshot.categories.size(); ++i) {
    snapshot.categories[i] = stats.categories[i].current_bytes;
  }
  snapshot.epoch = ledger_.epoch();
  snapshot.entry = static_cast<int>(ledger_.entries().size()) - 1;
  return snapshot;
}

absl::StatusOr<void*> PlannedAllocator::AllocateRaw(size_t bytes, MemoryCategory category) {
  constexpr uintptr_t kAlignment = 64;
  std::lock_guard<std::mutex> lock(mutex_);
  // Addresses tell blocks apart; nothing reads or writes there.
  void* const data = reinterpret_cast<void*>(next_);
  next_ += (bytes + kAlignment) / kAlignment * kAlignment;
  account_.Allocated(bytes, category);
  if (account_.stats().total.current_bytes > peak_.bytes) peak_ = TakeSnapshot();
  if (records_) snapshots_.push_back(TakeSnapshot());
  return data;
}

void PlannedAllocator::FreeRaw(void*, size_t bytes, MemoryCategory category) {
  std::lock_guard<std::mutex> lock(mutex_);
  account_.Freed(bytes, category);
  if (records_) snapshots_.push_back(TakeSnapshot());
}

PlannedDevice::PlannedDevice(Machine machine, const DeviceOptions& options)
    : machine_(std::move(machine)),
      options_(options),
      ledger_(BesideCollectives(machine_)),
      allocator_(std::make_shared<PlannedAllocator>(ledger_)),
      compute_stream_(std::make_unique<PlannedStream>(*this, "compute")) {}

void PlannedDevice::Add(Stream& stream, PlannedWork work) {
  ZEROTH_CHECK(stream.device().type() == kPlannedDeviceType);
  static_cast<PlannedStream&>(stream).Add(std::move(work));
}

absl::StatusOr<std::unique_ptr<Stream>> PlannedDevice::CreateStream(absl::string_view name) {
  return std::make_unique<PlannedStream>(*this, name);
}

absl::Status PlannedDevice::Move(Stream& stream, const char* label, Resource resource, double bytes,
                                 double bandwidth) const {
  Add(stream, {label, resource, bytes / bandwidth, machine_.launch_seconds});
  return absl::OkStatus();
}

absl::Status PlannedDevice::Copy(void*, const void*, size_t bytes, Stream& stream) {
  return Move(stream, "copy", Resource::kCompute, 2 * static_cast<double>(bytes),
              machine_.memory_bandwidth * units());
}

absl::Status PlannedDevice::CopyFromHost(void*, const void*, size_t bytes, Stream& stream) {
  return Move(stream, "copy from host", Resource::kHost, static_cast<double>(bytes),
              machine_.host_bandwidth);
}

absl::Status PlannedDevice::CopyToHost(void* host_dst, const void*, size_t bytes, Stream& stream) {
  if (bytes > 0) std::memset(host_dst, 0, bytes);
  return Move(stream, "copy to host", Resource::kHost, static_cast<double>(bytes),
              machine_.host_bandwidth);
}

absl::Status PlannedDevice::FillZero(void*, size_t bytes, Stream& stream) {
  return Move(stream, "fill", Resource::kCompute, static_cast<double>(bytes),
              machine_.memory_bandwidth * units());
}

absl::StatusOr<std::shared_ptr<OffloadStore>> PlannedDevice::CreateOffloadStore(
    const OffloadStoreOptions&) {
  return std::make_shared<PlannedStore>(machine_.host_bandwidth);
}

}  // namespace zeroth
