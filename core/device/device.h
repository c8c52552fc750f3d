// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Devices, streams and events: the interface that all layers above use. An implementation is a
// folder that registers itself (see cpu/).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/offload_store.h"

namespace zeroth {

class Device;

// A point in a stream's work. Cheap to copy by shared_ptr; thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // True once the work before the event has ended, with or without an error: also work of other
  // streams that its stream was made to wait for.
  virtual bool IsDone() const = 0;
  // Blocks the host until the event is done. Returns the error of the stream that recorded it, if
  // any.
  virtual absl::Status Synchronize() const = 0;
  // The time at which the event was done, in seconds on a clock that all streams of the device
  // share. Blocks as Synchronize() does. FailedPrecondition unless Stream::RecordTime recorded the
  // event.
  virtual absl::StatusOr<double> Seconds() const;
};

// An ordered queue of work. Work on two streams is unordered unless an event orders it. After its
// first failure a stream runs nothing more, and every call returns that first error. Thread-safe,
// but only calls from one thread have an order.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const = 0;
  virtual absl::string_view name() const = 0;

  // Returns an event that is done when all work enqueued so far has run.
  virtual absl::StatusOr<std::shared_ptr<Event>> Record() = 0;
  // Like Record(), with an event that keeps the time at which it was done. Costs a little more.
  // Unimplemented if the device cannot tell the time.
  virtual absl::StatusOr<std::shared_ptr<Event>> RecordTime();
  // Work that is enqueued from now on runs after `event`. If the event has failed, this stream
  // fails with its error.
  virtual absl::Status Wait(const std::shared_ptr<Event>& event) = 0;
  // Blocks the host until the stream is idle; returns its first error.
  virtual absl::Status Synchronize() = 0;
  // The first error so far, without waiting.
  virtual absl::Status status() const = 0;
};

// Work that was recorded once and can be played as a whole many times (a CUDA graph). The device
// gets it in one piece, so the host spends no time on its parts. Addresses, sizes and scalars are
// those of the recording; values that change from one play to the next must lie in device memory.
// The recording owns the memory that was allocated while it was made. Memory that was in use then
// is not handed out again while the recording exists, even if its owner frees it. Read the results
// while the recording exists.
class Recording {
 public:
  // Waits until the recording no longer runs. The device must outlive it.
  virtual ~Recording() = default;
  // Enqueues the recorded work on `stream`, which belongs to the device that recorded it and is not
  // being recorded itself. Afterwards, events of the recorded work stand for the end of this play.
  virtual absl::Status Play(Stream& stream) = 0;
};

// How to open a device.
struct DeviceOptions {
  int index = 0;             // which device of its kind; the CPU has only 0
  int threads = 1;           // threads of one rank's kernels (CPU); more than its cores do not help
  int64_t memory_limit = 0;  // of the rank's allocator, see Allocator::set_limit
  // Makes the bits of matmuls independent of `threads` (CPU, see kernels/gemm/gemm_cpu.h), and of
  // the strides and alignments of matrices (CUDA, see kernels/gemm/gemm_cuda.cc), which costs some
  // speed. The bits of all other kernels never depend on these.
  bool bits_of_any_team = false;
  // The source of Allocator::AllocateForTransport: the rank's Communicator::memory_source(). Memory
  // is returned to it once the device's streams no longer use it. nullptr: there is none. The CPU
  // ignores it.
  std::shared_ptr<MemorySource> transport_memory = nullptr;
};

// One rank's view of one piece of hardware: its allocator with this rank's account, its compute
// stream, and more streams on demand. Two ranks that share hardware open it twice. Streams must not
// outlive their device.
class Device {
 public:
  virtual ~Device() = default;

  virtual absl::string_view type() const = 0;  // the name it is registered under: "cpu", …
  virtual int index() const = 0;
  virtual const DeviceOptions& options() const = 0;
  std::string name() const;  // "cpu:0"

  virtual Allocator& allocator() = 0;
  // The default stream of kernels. On the CPU it runs work at once on the calling thread.
  virtual Stream& compute_stream() = 0;
  // Creates a stream that runs concurrently with the compute stream. On the CPU it is a worker
  // thread.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) = 0;
  // Prepares the calling host thread to issue work on this device (current device, OpenMP team
  // size). Call it once per thread.
  virtual void BindThread() = 0;

  // These run asynchronously on `stream`, which must belong to this device. The memory must stay
  // valid until they have run.
  virtual absl::Status Copy(void* dst, const void* src, size_t bytes, Stream& stream) = 0;
  virtual absl::Status CopyFromHost(void* dst, const void* host_src, size_t bytes,
                                    Stream& stream) = 0;
  virtual absl::Status CopyToHost(void* host_dst, const void* src, size_t bytes,
                                  Stream& stream) = 0;
  virtual absl::Status FillZero(void* dst, size_t bytes, Stream& stream) = 0;
  // True if the device's memory is host memory. Then the host may read and write it in place,
  // without a copy, once no stream uses it.
  virtual bool MemoryIsHost() const { return false; }

  // Opens further memory for this rank's state, outside of the allocator's account. Unimplemented
  // if the device has none, InvalidArgument for options that do not apply to it, or the store's
  // errors.
  virtual absl::StatusOr<std::shared_ptr<OffloadStore>> CreateOffloadStore(
      const OffloadStoreOptions& options);

  // True if the device supports the two functions below. Otherwise they are Unimplemented.
  virtual bool CanRecord() const { return false; }
  // Waits for all streams of this device, and starts a recording. Until EndRecording() on the same
  // thread, work that is enqueued on the streams is recorded and does not run. Meanwhile waiting on
  // the host for a stream or an event, copies from or to host memory, timed events and new streams
  // are FailedPrecondition, and no stream may be destroyed. Record only work that has run before:
  // the first run does one-time work (plans, caches), which every play would repeat.
  virtual absl::Status BeginRecording();
  // Ends the recording. Call it also after an error, and drop the result then. Returns an error and
  // no recording if ending fails, or if a call on a stream has failed since BeginRecording().
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndRecording();
};

// Device kinds by name. Thread-safe.
class DeviceRegistry {
 public:
  using Factory = std::function<absl::StatusOr<std::shared_ptr<Device>>(const DeviceOptions&)>;

  // NotFound lists the kinds that are linked in.
  static absl::StatusOr<std::shared_ptr<Device>> Create(absl::string_view type,
                                                        const DeviceOptions& options);
  // Sorted.
  static std::vector<std::string> Types();
};

// Put one at namespace scope in the implementation's .cc, in a target with alwayslink. A second
// registration of a name is a bug and aborts.
struct DeviceRegistration {
  DeviceRegistration(absl::string_view type, DeviceRegistry::Factory factory);
};

}  // namespace zeroth
