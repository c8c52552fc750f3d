// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The device "cuda": a GPU as one rank sees it. Layers above use the Device interface. CUDA kernels
// and collectives use this class.

#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/cuda/caching_allocator.h"
#include "zeroth/core/device/cuda/cuda_recording.h"
#include "zeroth/core/device/cuda/cuda_stream.h"
#include "zeroth/core/device/device.h"

namespace zeroth::cuda {

// The GPU's model, and properties that launch shapes depend on.
struct DeviceProperties {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  size_t shared_bytes_per_block = 0;  // the opt-in limit
};

// Pinned host memory through which copies to the device pass. From pageable memory, the driver
// would copy only after it has waited for the stream. Thread-safe.
class HostStaging {
 public:
  static constexpr size_t kSlotBytes = size_t{4} << 20;
  static constexpr size_t kSlots = 4;

  HostStaging() = default;
  // The streams that were copied on must be idle.
  ~HostStaging();
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  // Copies `bytes` from host memory to `dst` on `stream`. `src` may be reused when this returns.
  // Waits for the device only if all slots are in use.
  absl::Status CopyToDevice(void* dst, const void* src, size_t bytes, CudaStream& stream);

 private:
  struct Slot {
    void* data = nullptr;
    std::shared_ptr<Event> last_use;
  };
  // Returns a slot that no copy reads any more.
  absl::StatusOr<Slot> TakeLocked();

  std::mutex mutex_;
  size_t made_ = 0;
  std::deque<Slot> slots_;  // the one used longest ago first
  // Slots of failed copies. Whether the device still reads them is unknown, so they are not reused.
  std::vector<void*> lost_;
};

class CudaDevice final : public Device {
 public:
  // `device` as a CudaDevice; aborts if it is another kind.
  static CudaDevice& From(Device& device);

  // FailedPrecondition without a driver or a GPU. InvalidArgument if no GPU has that index. Both
  // say what was found.
  static absl::StatusOr<std::shared_ptr<Device>> Open(const DeviceOptions& options);

  absl::string_view type() const override { return "cuda"; }
  int index() const override { return options_.index; }
  const DeviceOptions& options() const override { return options_; }
  Allocator& allocator() override { return *allocator_; }
  CudaStream& compute_stream() override { return *compute_stream_; }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) override;
  void BindThread() override;

  absl::Status Copy(void* dst, const void* src, size_t bytes, Stream& stream) override;
  // The host memory is read before this returns, so it need not stay valid.
  absl::Status CopyFromHost(void* dst, const void* host_src, size_t bytes, Stream& stream) override;
  absl::Status CopyToHost(void* host_dst, const void* src, size_t bytes, Stream& stream) override;
  absl::Status FillZero(void* dst, size_t bytes, Stream& stream) override;

  // A store in page-locked memory of the host, which a GPU's copy engines read and write while
  // kernels run. Transfers may be recorded, because the memory never moves. InvalidArgument if the
  // options name a directory, since the store has no files. Its Reserve returns ResourceExhausted
  // if the host can lock no more memory. The device outlives the store and its regions.
  absl::StatusOr<std::shared_ptr<OffloadStore>> CreateOffloadStore(
      const OffloadStoreOptions& options) override;

  // Records a CUDA graph. Allocations during a recording come from a private pool.
  bool CanRecord() const override { return true; }
  absl::Status BeginRecording() override;
  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override;

  const DeviceProperties& properties() const { return properties_; }

 private:
  CudaDevice(const DeviceOptions& options, DeviceProperties properties);

  const DeviceOptions options_;
  const DeviceProperties properties_;
  const std::shared_ptr<LiveStreams> streams_ = std::make_shared<LiveStreams>();
  const std::shared_ptr<CachingAllocator> allocator_;
  HostStaging staging_;
  std::unique_ptr<CudaStream> compute_stream_;
  std::unique_ptr<RecordingInProgress> recording_;
};

}  // namespace zeroth::cuda
