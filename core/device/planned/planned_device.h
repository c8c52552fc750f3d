// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A device that keeps books and computes nothing: streams record the work enqueued on them, and the
// allocator hands out addresses without memory. The scheduler and the strategies make the same
// calls on it as on a real device, in the same order. Copies from its memory read zeros.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/memory_account.h"
#include "zeroth/core/device/planned/machine.h"
#include "zeroth/core/device/planned/work_ledger.h"

namespace zeroth {

inline constexpr char kPlannedDeviceType[] = "planned";

// Remembers the memory account at its peak, and, after RecordSnapshots, at each change.
class PlannedAllocator final : public AccountingAllocator {
 public:
  explicit PlannedAllocator(const WorkLedger& ledger) : ledger_(ledger) {}

  struct MemorySnapshot {
    int64_t bytes = 0;
    std::array<int64_t, kMemoryCategoryCount> categories{};
    int epoch = 0;                     // of the ledger
    int entry = WorkLedger::kNothing;  // the last that had been enqueued
  };
  const MemorySnapshot& peak() const { return peak_; }
  // Keeps a snapshot for each allocation and each free from here on.
  void RecordSnapshots() { records_ = true; }
  const std::vector<MemorySnapshot>& snapshots() const { return snapshots_; }

 private:
  MemorySnapshot TakeSnapshot() const;

  absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) override;
  void FreeRaw(void* data, size_t bytes, MemoryCategory category) override;
  void TrimLocked() override {}

  const WorkLedger& ledger_;
  uintptr_t next_ = uintptr_t{1} << 40;
  MemorySnapshot peak_;
  bool records_ = false;
  std::vector<MemorySnapshot> snapshots_;
};

// The loss of a system that does not fuse it with the head. The logits of all tokens have the dtype
// of the parameters. Their softmax, its gradient and the logits' gradient are one allocation each.
struct UnfusedLoss {
  DType softmax_dtype = DType::kFloat32;
  // True if gathered parameters are freed before the loss; otherwise they stay. The buffers of
  // collectives are always freed.
  bool frees_gathered = true;
  // True if memory for the head's gradient is allocated after the loss; the fused loss allocates it
  // before.
  bool gradient_begins_later = true;
};

// Not thread-safe: one thread uses the device and all that is on it.
class PlannedDevice final : public Device {
 public:
  // On a CPU the rank has options.threads cores.
  PlannedDevice(Machine machine, const DeviceOptions& options);

  const Machine& machine() const { return machine_; }
  WorkLedger& ledger() { return ledger_; }
  // nullopt: the loss is the fused kernel.
  const std::optional<UnfusedLoss>& unfused_loss() const { return unfused_loss_; }
  void set_unfused_loss(const std::optional<UnfusedLoss>& loss) { unfused_loss_ = loss; }
  // Devices that work for the rank: one GPU, or as many cores as the rank has threads.
  int units() const { return machine_.is_gpu ? 1 : options_.threads; }
  // Records work on `stream`, which belongs to a planned device.
  static void Add(Stream& stream, PlannedWork work);

  absl::string_view type() const override { return kPlannedDeviceType; }
  int index() const override { return options_.index; }
  const DeviceOptions& options() const override { return options_; }
  PlannedAllocator& allocator() override { return *allocator_; }
  Stream& compute_stream() override { return *compute_stream_; }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) override;
  void BindThread() override {}

  absl::Status Copy(void* dst, const void* src, size_t bytes, Stream& stream) override;
  absl::Status CopyFromHost(void* dst, const void* host_src, size_t bytes, Stream& stream) override;
  absl::Status CopyToHost(void* host_dst, const void* src, size_t bytes, Stream& stream) override;
  absl::Status FillZero(void* dst, size_t bytes, Stream& stream) override;
  absl::StatusOr<std::shared_ptr<OffloadStore>> CreateOffloadStore(
      const OffloadStoreOptions& options) override;

 private:
  // Records a kernel or copy of `bytes`, at `bandwidth` bytes per second.
  absl::Status Move(Stream& stream, const char* label, Resource resource, double bytes,
                    double bandwidth) const;

  const Machine machine_;
  const DeviceOptions options_;
  WorkLedger ledger_;
  std::optional<UnfusedLoss> unfused_loss_;
  const std::shared_ptr<PlannedAllocator> allocator_;
  const std::unique_ptr<Stream> compute_stream_;
};

}  // namespace zeroth
