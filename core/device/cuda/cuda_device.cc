// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/hardware.h"

namespace zeroth::cuda {
namespace {

// Memory of one device from cudaMalloc.
class CudaMemory final : public MemorySource {
 public:
  explicit CudaMemory(int ordinal) : ordinal_(ordinal) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    const AllowDuringCapture allow;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_));
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // so that the next call does not report it
      return absl::ResourceExhaustedError(
          absl::StrCat("cuda:", ordinal_, " has no more memory", Occupancy(),
                       "; use a smaller batch or model, more ranks, or --param_dtype=bf16"));
    }
    ZEROTH_CUDA_RETURN_IF_ERROR(error);
    return data;
  }

  void Free(void* data, size_t) override {
    const AllowDuringCapture allow;
    // Errors are ignored: when a process ends, CUDA may be gone before the last tensor.
    static_cast<void>(cudaSetDevice(ordinal_));
    static_cast<void>(cudaFree(data));
  }

 private:
  std::string Occupancy() const {
    size_t free = 0;
    size_t total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "";
    return absl::StrCat(" (", free, " of ", total, " bytes are free, other processes included)");
  }

  const int ordinal_;
};

// Memory of a transport. Free waits until the device's streams no longer use it.
class TransportMemory final : public MemorySource {
 public:
  TransportMemory(std::shared_ptr<MemorySource> source, std::shared_ptr<LiveStreams> streams)
      : source_(std::move(source)), streams_(std::move(streams)) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override { return source_->Allocate(bytes); }
  void Free(void* data, size_t bytes) override {
    for (CudaStream* const stream : streams_->Get()) {
      // A stream that is being recorded was idle when the recording began.
      if (stream->playback() != nullptr) continue;
      // An error is ignored: a thread that waited for the stream has got it, or none needs it.
      static_cast<void>(cudaStreamSynchronize(stream->handle()));
    }
    source_->Free(data, bytes);
  }

 private:
  const std::shared_ptr<MemorySource> source_;
  const std::shared_ptr<LiveStreams> streams_;
};

std::shared_ptr<MemorySource> MakeTransportMemory(const DeviceOptions& options,
                                                  const std::shared_ptr<LiveStreams>& streams) {
  if (options.transport_memory == nullptr) return nullptr;
  return std::make_shared<TransportMemory>(options.transport_memory, streams);
}

// True if a tool that watches memory accesses needs exact blocks: always in the emulation under the
// address sanitizer. Tools for GPUs run ordinary builds, so there an environment variable says so.
bool ExactBlocks() {
#if defined(ZEROTH_CUDA_EMULATION) && defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return std::getenv("ZEROTH_CUDA_EXACT_BLOCKS") != nullptr;
#endif
}

absl::StatusOr<DeviceProperties> ReadProperties(int ordinal) {
  cudaDeviceProp read;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&read, ordinal));
  DeviceProperties properties;
  properties.name = read.name;
  properties.compute_capability = read.major * 10 + read.minor;
  properties.multiprocessors = read.multiProcessorCount;
  properties.shared_bytes_per_block = read.sharedMemPerBlockOptin;
  return properties;
}

}  // namespace

HostStaging::~HostStaging() {
  for (const Slot& slot : slots_) static_cast<void>(cudaFreeHost(slot.data));
  for (void* const data : lost_) static_cast<void>(cudaFreeHost(data));
}

absl::StatusOr<HostStaging::Slot> HostStaging::TakeLocked() {
  const bool oldest_is_free = !slots_.empty() && slots_.front().last_use->IsDone();
  if (!oldest_is_free && made_ < kSlots) {
    Slot slot;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaMallocHost(&slot.data, kSlotBytes));
    ++made_;
    return slot;
  }
  // An error is the stream's, which reports it at its next call.
  slots_.front().last_use->Synchronize().IgnoreError();
  Slot slot = std::move(slots_.front());
  slots_.pop_front();
  return slot;
}

absl::Status HostStaging::CopyToDevice(void* dst, const void* src, size_t bytes,
                                       CudaStream& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t done = 0; done < bytes; done += kSlotBytes) {
    ZEROTH_RETURN_IF_ERROR(stream.status());
    const size_t count = std::min(kSlotBytes, bytes - done);
    ZEROTH_ASSIGN_OR_RETURN(Slot slot, TakeLocked());
    std::memcpy(slot.data, static_cast<const char*>(src) + done, count);
    const absl::Status copied =
        ToStatus(cudaMemcpyAsync(static_cast<char*>(dst) + done, slot.data, count,
                                 cudaMemcpyHostToDevice, stream.handle()),
                 "cudaMemcpyAsync to the device");
    absl::StatusOr<std::shared_ptr<Event>> last_use = stream.Record();
    if (!copied.ok() || !last_use.ok()) {
      lost_.push_back(slot.data);
      --made_;
      return stream.Update(copied.ok() ? last_use.status() : copied);
    }
    slot.last_use = *std::move(last_use);
    slots_.push_back(std::move(slot));
  }
  return absl::OkStatus();
}

CudaDevice& CudaDevice::From(Device& device) {
  auto* const cuda_device = dynamic_cast<CudaDevice*>(&device);
  ZEROTH_CHECK(cuda_device != nullptr);
  return *cuda_device;
}

CudaDevice::CudaDevice(const DeviceOptions& options, DeviceProperties properties)
    : options_(options),
      properties_(std::move(properties)),
      allocator_(std::make_shared<CachingAllocator>(std::make_unique<CudaMemory>(options.index),
                                                    ExactBlocks(),
                                                    MakeTransportMemory(options, streams_))) {}

absl::StatusOr<std::shared_ptr<Device>> CudaDevice::Open(const DeviceOptions& options) {
  int count = 0;
  ZEROTH_RETURN_IF_ERROR_WITH(ToStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount"),
                              absl::StrCat("device cuda:", options.index));
  if (options.index < 0 || options.index >= count) {
    return InvalidArgument("there is no device cuda:", options.index, "; ", count,
                           count == 1 ? " GPU is" : " GPUs are", " visible here, numbered from 0");
  }
  ZEROTH_ASSIGN_OR_RETURN(DeviceProperties properties, ReadProperties(options.index));
  std::shared_ptr<CudaDevice> device(new CudaDevice(options, std::move(properties)));
  ZEROTH_ASSIGN_OR_RETURN(device->compute_stream_,
                          CudaStream::Create(*device, options.index, "compute",
                                             /*is_compute=*/true, device->streams_));
  return std::shared_ptr<Device>(std::move(device));
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateStream(absl::string_view name) {
  ZEROTH_RETURN_IF_ERROR(compute_stream_->ExpectNotRecorded("get another stream beside it"));
  ZEROTH_ASSIGN_OR_RETURN(
      std::unique_ptr<CudaStream> stream,
      CudaStream::Create(*this, options_.index, name, /*is_compute=*/false, streams_));
  return std::unique_ptr<Stream>(std::move(stream));
}

void CudaDevice::BindThread() {
  // The device was opened before, so the next call reports any error of this one.
  static_cast<void>(cudaSetDevice(options_.index));
}

absl::Status CudaDevice::Copy(void* dst, const void* src, size_t bytes, Stream& stream) {
  ZEROTH_CHECK(&stream.device() == this);
  CudaStream& on = CudaStream::From(stream);
  if (bytes == 0 || !on.status().ok()) return on.status();
  return on.Update(ToStatus(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, on.handle()),
                            "cudaMemcpyAsync"));
}

absl::Status CudaDevice::CopyFromHost(void* dst, const void* host_src, size_t bytes,
                                      Stream& stream) {
  ZEROTH_CHECK(&stream.device() == this);
  CudaStream& on = CudaStream::From(stream);
  if (bytes == 0 || !on.status().ok()) return on.status();
  // Every play would read the same staging memory, which may hold other data by then.
  ZEROTH_RETURN_IF_ERROR(on.ExpectNotRecorded("copy from the host"));
  return staging_.CopyToDevice(dst, host_src, bytes, on);
}

absl::Status CudaDevice::CopyToHost(void* host_dst, const void* src, size_t bytes, Stream& stream) {
  ZEROTH_CHECK(&stream.device() == this);
  CudaStream& on = CudaStream::From(stream);
  if (bytes == 0 || !on.status().ok()) return on.status();
  ZEROTH_RETURN_IF_ERROR(on.ExpectNotRecorded("copy to the host"));
  return on.Update(
      ToStatus(cudaMemcpyAsync(host_dst, src, bytes, cudaMemcpyDeviceToHost, on.handle()),
               "cudaMemcpyAsync to the host"));
}

absl::Status CudaDevice::FillZero(void* dst, size_t bytes, Stream& stream) {
  ZEROTH_CHECK(&stream.device() == this);
  CudaStream& on = CudaStream::From(stream);
  if (bytes == 0 || !on.status().ok()) return on.status();
  return on.Update(ToStatus(cudaMemsetAsync(dst, 0, bytes, on.handle()), "cudaMemsetAsync"));
}

absl::Status CudaDevice::BeginRecording() {
  if (recording_ != nullptr) {
    return FailedPrecondition("device ", name(), " is recording already; end that first");
  }
  BindThread();
  ZEROTH_ASSIGN_OR_RETURN(recording_, RecordingInProgress::Begin(streams_->Get(), allocator_));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Recording>> CudaDevice::EndRecording() {
  if (recording_ == nullptr) {
    return FailedPrecondition("device ", name(), " is not recording; call BeginRecording first");
  }
  const std::unique_ptr<RecordingInProgress> recording = std::move(recording_);
  return recording->Finish();
}

namespace {

// Launch shapes depend on the number of multiprocessors, cuBLASLt's choices on the model, too.
absl::StatusOr<std::string> NameGpu(const Device& device) {
  const DeviceProperties& properties = static_cast<const CudaDevice&>(device).properties();
  return absl::StrCat(properties.name, ", compute capability ", properties.compute_capability / 10,
                      ".", properties.compute_capability % 10, ", ", properties.multiprocessors,
                      " multiprocessors");
}

const DeviceRegistration registration("cuda", CudaDevice::Open);
const HardwareNameRegistration hardware("cuda", NameGpu);

}  // namespace
}  // namespace zeroth::cuda
