// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The offload store of CudaDevice.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_device.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth::cuda {
namespace {

struct Counters {
  std::atomic<int64_t> reserved{0};
  std::atomic<int64_t> read{0};
  std::atomic<int64_t> written{0};
};

class PinnedRegion final : public OffloadRegion {
 public:
  PinnedRegion(const Device& device, std::shared_ptr<Counters> counters, char* data, int64_t bytes)
      : OffloadRegion(bytes), device_(device), counters_(std::move(counters)), data_(data) {}
  ~PinnedRegion() override {
    counters_->reserved -= bytes();
    // Errors are ignored: when a process ends, CUDA may be gone before the last region.
    if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
  }

  absl::Status Read(int64_t offset, void* dst, size_t bytes, Stream& stream) override {
    const char* const src = At(offset, bytes);
    return Move(dst, src, bytes, cudaMemcpyHostToDevice, stream, counters_->read);
  }

  absl::Status Write(int64_t offset, const void* src, size_t bytes, Stream& stream) override {
    char* const dst = At(offset, bytes);
    return Move(dst, src, bytes, cudaMemcpyDeviceToHost, stream, counters_->written);
  }

 private:
  char* At(int64_t offset, size_t count) const {
    ZEROTH_CHECK(offset >= 0 && offset <= bytes());
    ZEROTH_CHECK(count <= static_cast<size_t>(bytes() - offset));
    return data_ + offset;
  }

  // Transfers count when they are enqueued, because only the device knows when they have run.
  absl::Status Move(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, Stream& stream,
                    std::atomic<int64_t>& counter) {
    ZEROTH_CHECK(&stream.device() == &device_);
    CudaStream& on = CudaStream::From(stream);
    if (bytes == 0 || !on.status().ok()) return on.status();
    counter += static_cast<int64_t>(bytes);
    return on.Update(ToStatus(cudaMemcpyAsync(dst, src, bytes, kind, on.handle()),
                              "cudaMemcpyAsync of an offload store"));
  }

  const Device& device_;
  const std::shared_ptr<Counters> counters_;
  char* const data_;
};

class PinnedStore final : public OffloadStore {
 public:
  explicit PinnedStore(Device& device) : device_(device) {}

  absl::StatusOr<std::shared_ptr<OffloadRegion>> Reserve(int64_t bytes) override {
    ZEROTH_CHECK(bytes >= 0);
    void* data = nullptr;
    if (bytes > 0) {
      device_.BindThread();
      const cudaError_t error = cudaMallocHost(&data, static_cast<size_t>(bytes));
      if (error == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());  // so that the next call does not report it
        return absl::ResourceExhaustedError(
            absl::StrCat("the host has no ", bytes, " bytes to lock for device ", device_.name(),
                         " beside ", counters_->reserved.load(),
                         " that it has locked; offload less, or use more ranks on more machines"));
      }
      ZEROTH_CUDA_RETURN_IF_ERROR(error);
      std::memset(data, 0, static_cast<size_t>(bytes));
    }
    counters_->reserved += bytes;
    return std::make_shared<PinnedRegion>(device_, counters_, static_cast<char*>(data), bytes);
  }

  OffloadStats stats() const override {
    return {counters_->reserved, counters_->read, counters_->written};
  }

 private:
  Device& device_;
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
};

}  // namespace

absl::StatusOr<std::shared_ptr<OffloadStore>> CudaDevice::CreateOffloadStore(
    const OffloadStoreOptions& options) {
  if (!options.directory.empty()) {
    return InvalidArgument("device ", name(),
                           " offloads to the host's memory, which has no use for the directory '",
                           options.directory, "'; leave it out");
  }
  return std::make_shared<PinnedStore>(*this);
}

}  // namespace zeroth::cuda
