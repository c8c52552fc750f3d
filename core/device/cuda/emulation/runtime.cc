// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA runtime that this project calls, on the host: one device whose memory is the
// host's, streams that are threads, events that are what they say. Functions have the signatures of
// cuda_runtime_api.h, so that the code under test is what runs on a GPU.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "zeroth/core/device/cuda/emulation/emulated_runtime.h"
#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

using zeroth::cuda::emulation::Unwatched;

namespace {

// The time at which events are reached, in nanoseconds; negative: that of the host.
std::atomic<int64_t> device_clock{-1};
std::atomic<int64_t> events_created{0};

}  // namespace

void zeroth::cuda::emulation::SetDeviceClock(std::optional<std::chrono::nanoseconds> time) {
  device_clock = time.has_value() ? time->count() : -1;
}

void CUevent_st::State::Reach(uint64_t number) {
  edges.Release(number % kPlaces);
  const Unwatched unwatched(/*also_locks=*/true);
  std::lock_guard<std::mutex> lock(mutex);
  completed = number;
  const int64_t set = device_clock.load();
  reached = set < 0 ? std::chrono::steady_clock::now()
                    : std::chrono::steady_clock::time_point(std::chrono::nanoseconds(set));
  changed.notify_all();
}

void CUevent_st::State::Await(uint64_t number) {
  {
    const Unwatched unwatched(/*also_locks=*/true);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return completed >= number; });
  }
  edges.Acquire(number % kPlaces);
}

bool CUevent_st::State::IsReached() {
  uint64_t number = 0;
  {
    const Unwatched unwatched(/*also_locks=*/true);
    std::lock_guard<std::mutex> lock(mutex);
    if (completed != recorded) return false;
    number = recorded;
  }
  edges.Acquire(number % kPlaces);
  return true;
}

void CUevent_st::State::AwaitLast() {
  uint64_t number = 0;
  {
    const Unwatched unwatched(/*also_locks=*/true);
    std::lock_guard<std::mutex> lock(mutex);
    number = recorded;
  }
  Await(number);
}

uint64_t CUevent_st::State::Record() {
  const Unwatched unwatched(/*also_locks=*/true);
  std::lock_guard<std::mutex> lock(mutex);
  return ++recorded;
}

CUstream_st::CUstream_st() : thread([this] { Run(); }) {}

CUstream_st::~CUstream_st() {
  const Unwatched unwatched(/*also_locks=*/true);  // destroying a stream waits for nothing
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void CUstream_st::Push(std::function<void()> work) {
  auto next = std::make_unique<Work>();
  next->run = std::move(work);
  next->enqueued.Release(0);
  const Unwatched unwatched(/*also_locks=*/true);
  {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(std::move(next));
  }
  changed.notify_all();
}

void CUstream_st::Drain() {
  {
    const Unwatched unwatched(/*also_locks=*/true);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return queue.empty() && !running; });
  }
  done.Acquire(0);
}

bool CUstream_st::IsIdle() {
  {
    const Unwatched unwatched(/*also_locks=*/true);
    std::lock_guard<std::mutex> lock(mutex);
    if (!queue.empty() || running) return false;
  }
  done.Acquire(0);
  return true;
}

std::unique_ptr<CUstream_st::Work> CUstream_st::Take() {
  const Unwatched unwatched(/*also_locks=*/true);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [this] { return stopping || !queue.empty(); });
  if (queue.empty()) return nullptr;
  std::unique_ptr<Work> next = std::move(queue.front());
  queue.pop_front();
  running = true;
  return next;
}

void CUstream_st::Finish() {
  const Unwatched unwatched(/*also_locks=*/true);
  std::lock_guard<std::mutex> lock(mutex);
  running = false;
  if (queue.empty()) changed.notify_all();
}

void CUstream_st::Run() {
  while (std::unique_ptr<Work> next = Take()) {
    next->enqueued.Acquire(0);
    next->run();
    next = nullptr;
    done.Release(0);
    Finish();
  }
}

namespace zeroth::cuda::emulation {
namespace {

// Returns memory aligned as by cudaMalloc, of exactly the size, so that the address sanitizer sees
// accesses beyond it; null if there is none. It reads as NaNs, so that a kernel that forgets to
// write some of its output, or to clear what it adds to, cannot pass on zeros.
void* AllocateFresh(size_t bytes) {
  constexpr size_t kAlignment = 256;
  // Sanitizers end the program where malloc would return null.
  constexpr size_t kMost = size_t{1} << 39;
  void* memory = nullptr;
  if (bytes > kMost || posix_memalign(&memory, kAlignment, bytes) != 0) return nullptr;
  std::memset(memory, 0xFF, bytes);
  return memory;
}

// The state of the one device.
class Machine {
 public:
  static Machine& Get() {
    static auto* machine = new Machine;
    return *machine;
  }

  // Does not take the lock, which would order the threads that call CUDA and so hide races.
  cudaError_t sticky() const { return sticky_.load(std::memory_order_relaxed); }
  void set_sticky(cudaError_t error) { sticky_.store(error, std::memory_order_relaxed); }
  void FailNext(int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    failures_ = count;
  }
  void SetCapacity(size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    capacity_ = bytes == 0 ? kDefaultCapacity : bytes;
  }

  cudaError_t Allocate(void** pointer, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (sticky() != cudaSuccess) return sticky();
    if (failures_ > 0) {
      --failures_;
      return cudaErrorMemoryAllocation;
    }
    if (bytes > capacity_ - std::min(capacity_, used_)) return cudaErrorMemoryAllocation;
    *pointer = AllocateFresh(bytes);
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    sizes_[*pointer] = bytes;
    used_ += bytes;
    return cudaSuccess;
  }

  cudaError_t Free(void* pointer) {
    if (pointer == nullptr) return cudaSuccess;
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sizes_.find(pointer);
    if (found == sizes_.end()) return cudaErrorInvalidValue;
    used_ -= found->second;
    sizes_.erase(found);
    std::free(pointer);
    return cudaSuccess;
  }

  void MemoryInfo(size_t* free, size_t* total) {
    std::lock_guard<std::mutex> lock(mutex_);
    *total = capacity_;
    *free = capacity_ - std::min(capacity_, used_);
  }

 private:
  static constexpr size_t kDefaultCapacity = size_t{16} << 30;

  std::mutex mutex_;
  std::atomic<cudaError_t> sticky_{cudaSuccess};
  int failures_ = 0;
  size_t capacity_ = kDefaultCapacity;
  size_t used_ = 0;
  std::map<void*, size_t> sizes_;
};

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work) {
  if (const cudaError_t error = Machine::Get().sticky(); error != cudaSuccess) return Report(error);
  if (stream == nullptr) {  // the project creates its own streams; other calls are synchronous
    const cudaError_t refused = RefuseWhileCapturing(cudaErrorStreamCaptureImplicit);
    if (refused != cudaSuccess) return refused;
    work();
    return cudaSuccess;
  }
  if (cudaError_t result = cudaSuccess; CaptureWork(stream, work, &result)) return result;
  stream->Push(std::move(work));
  return cudaSuccess;
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* words;
};

constexpr ErrorText kErrorTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const ErrorText& TextOf(cudaError_t error) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.error == error) return text;
  }
  static constexpr ErrorText kUnknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  return kUnknown;
}

}  // namespace

cudaError_t Report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t StickyError() { return Machine::Get().sticky(); }

absl::Status EnqueueOnEmulatedStream(cudaStream_t stream, std::function<void()> work) {
  const cudaError_t error = Enqueue(stream, std::move(work));
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(TextOf(error).words);
}

absl::Status EnqueuePreparedOnEmulatedStream(cudaStream_t stream,
                                             std::function<std::function<void()>()> prepare) {
  if (Machine::Get().sticky() == cudaSuccess) {
    cudaError_t result = cudaSuccess;
    if (!CapturePrepared(stream, prepare, &result)) {
      return EnqueueOnEmulatedStream(stream, prepare());
    }
    if (result != cudaSuccess) return absl::InternalError(TextOf(result).words);
    return absl::OkStatus();
  }
  return absl::InternalError(TextOf(Machine::Get().sticky()).words);
}

void FailNextAllocations(int count) { Machine::Get().FailNext(count); }
int64_t EventsCreated() { return events_created; }
void SetDeviceMemory(size_t bytes) { Machine::Get().SetCapacity(bytes); }
void SetStickyError(cudaError_t error) { Machine::Get().set_sticky(error); }

}  // namespace zeroth::cuda::emulation

using zeroth::cuda::emulation::AllocateFresh;
using zeroth::cuda::emulation::CaptureRecord;
using zeroth::cuda::emulation::CaptureWait;
using zeroth::cuda::emulation::Enqueue;
using zeroth::cuda::emulation::last_error;
using zeroth::cuda::emulation::LeaveCapture;
using zeroth::cuda::emulation::Machine;
using zeroth::cuda::emulation::RefuseIfCaptured;
using zeroth::cuda::emulation::RefuseWhileCapturing;
using zeroth::cuda::emulation::Report;
using zeroth::cuda::emulation::TextOf;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) { return TextOf(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return TextOf(error).words; }
cudaError_t cudaGetLastError() {
  const cudaError_t sticky = Machine::Get().sticky();
  return sticky != cudaSuccess ? sticky : std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = Machine::Get().sticky();
  return sticky != cudaSuccess ? sticky : last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? Machine::Get().sticky() : Report(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// A small device of compute capability 9.0: few SMs, so that grids that follow their number stay
// short here.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return Report(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof(*properties));
  std::strncpy(properties->name, "emulated CUDA device", sizeof(properties->name) - 1);
  size_t free = 0;
  Machine::Get().MemoryInfo(&free, &properties->totalGlobalMem);
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 4;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerBlock = size_t{48} << 10;
  properties->sharedMemPerBlockOptin = size_t{227} << 10;
  properties->sharedMemPerMultiprocessor = size_t{228} << 10;
  properties->regsPerBlock = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->memoryBusWidth = 5120;
  properties->integrated = 0;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Machine::Get().MemoryInfo(free, total);
  return Report(Machine::Get().sticky());
}
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (const cudaError_t refused = RefuseWhileCapturing(); refused != cudaSuccess) return refused;
  return Report(Machine::Get().Allocate(pointer, bytes));
}
cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t refused = RefuseWhileCapturing(); refused != cudaSuccess) return refused;
  return Report(Machine::Get().Free(pointer));
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  if (const cudaError_t refused = RefuseWhileCapturing(); refused != cudaSuccess) return refused;
  *pointer = AllocateFresh(bytes);
  return Report(*pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return cudaMallocHost(pointer, bytes);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  if (const cudaError_t refused = RefuseWhileCapturing(); refused != cudaSuccess) return refused;
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return Enqueue(stream, [to, from, bytes] {
    if (bytes > 0) std::memmove(to, from, bytes);
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Enqueue(stream, [to, value, bytes] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = Machine::Get().sticky(); error != cudaSuccess) return Report(error);
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  LeaveCapture(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t refused = RefuseIfCaptured(stream); refused != cudaSuccess) return refused;
  if (stream != nullptr) stream->Drain();
  return Report(Machine::Get().sticky());
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t refused = RefuseIfCaptured(stream); refused != cudaSuccess) return refused;
  if (const cudaError_t error = Machine::Get().sticky(); error != cudaSuccess) return Report(error);
  return stream == nullptr || stream->IsIdle() ? cudaSuccess : Report(cudaErrorNotReady);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return Enqueue(stream, [function, data] { function(data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  ++events_created;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (cudaError_t result = cudaSuccess; CaptureRecord(event, stream, &result)) return result;
  const uint64_t number = event->state->Record();
  return Enqueue(stream, [state = event->state, number] { state->Reach(number); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t refused = RefuseIfCaptured(event); refused != cudaSuccess) return refused;
  if (const cudaError_t error = Machine::Get().sticky(); error != cudaSuccess) return Report(error);
  return event->state->IsReached() ? cudaSuccess : Report(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t refused = RefuseIfCaptured(event); refused != cudaSuccess) return refused;
  event->state->AwaitLast();
  return Report(Machine::Get().sticky());
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timed || !end->timed) return Report(cudaErrorInvalidResourceHandle);
  const Unwatched unwatched(/*also_locks=*/true);
  std::chrono::steady_clock::time_point reached[2];
  const cudaEvent_t events[2] = {start, end};
  for (int i = 0; i < 2; ++i) {
    std::lock_guard<std::mutex> lock(events[i]->state->mutex);
    reached[i] = events[i]->state->reached;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(reached[1] - reached[0]).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (cudaError_t result = cudaSuccess; CaptureWait(stream, event, &result)) return result;
  uint64_t number = 0;
  {
    const Unwatched unwatched(/*also_locks=*/true);
    std::lock_guard<std::mutex> lock(event->state->mutex);
    number = event->state->recorded;
  }
  return Enqueue(stream, [state = event->state, number] { state->Await(number); });
}

}  // extern "C"
