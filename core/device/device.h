// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Devices, streams and events: the interface that everything above is written against. An
// implementation is a folder that registers itself (see cpu/).

#ifndef ZEROTH_CORE_DEVICE_DEVICE_H_
#define ZEROTH_CORE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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
  // True once the work before the event has ended, in success or in error.
  virtual bool IsDone() const = 0;
  // Blocks the host until then. Returns the error of the stream that recorded it, if any.
  virtual absl::Status Synchronize() const = 0;
  // When that was, in seconds on a clock that all streams of the device share. Blocks as
  // Synchronize() does. FailedPrecondition unless it was recorded by Stream::RecordTime.
  virtual absl::StatusOr<double> Seconds() const;
};

// An ordered queue of work. Work on two streams is unordered unless an event orders it. After the
// first failure a stream runs nothing more and every call returns that first error. Thread-safe,
// though order needs one issuing thread.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const = 0;
  virtual absl::string_view name() const = 0;

  // An event that is done when everything enqueued so far has run.
  virtual absl::StatusOr<std::shared_ptr<Event>> Record() = 0;
  // The same, of an event that remembers when it was done. Costs a little more. Unimplemented where
  // the device cannot tell.
  virtual absl::StatusOr<std::shared_ptr<Event>> RecordTime();
  // What is enqueued from now on runs after `event`. A failed event fails this stream with its
  // error.
  virtual absl::Status Wait(const std::shared_ptr<Event>& event) = 0;
  // Blocks the host until the stream is idle; returns its first error.
  virtual absl::Status Synchronize() = 0;
  // The first error so far, without waiting.
  virtual absl::Status status() const = 0;
};

// Work that was recorded once, to be run as a whole again and again: the device gets it in one
// piece and the host spends nothing on its parts (a CUDA graph). It has the addresses, sizes and
// scalars that it was recorded with; what is to change from one time to the next has to lie in
// device memory. Owns the memory that was allocated while it was recorded, and keeps what was in
// use then from being handed out again, whoever frees it: its results are to be read while it
// lives.
class Recording {
 public:
  // Waits until it no longer runs. The device outlives it.
  virtual ~Recording() = default;
  // Enqueues all of it on `stream`, of the device that recorded it and not being recorded itself.
  // Events of the recorded work then stand for the end of the latest time.
  virtual absl::Status Play(Stream& stream) = 0;
};

// How to open a device.
struct DeviceOptions {
  int index = 0;    // which device of its kind; the CPU has only 0
  int threads = 1;  // threads of one rank's kernels (CPU); more are useless beyond the rank's cores
  int64_t memory_limit = 0;  // of the rank's allocator, see Allocator::set_limit
  // Matrix products have the same bits whatever `threads` is (CPU): for some speed, see
  // kernels/gemm/gemm_cpu.h. All other kernels' never depend on it.
  bool bits_of_any_team = false;
  // Where Allocator::AllocateForTransport gets memory of this kind of device from: the rank's
  // Communicator::memory_source(). Memory goes back there once the device's streams are done with
  // it. nullptr, or a device that has no use for it (CPU): there is none.
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
  // Where kernels run unless told otherwise. On the CPU it runs work at once on the calling thread.
  virtual Stream& compute_stream() = 0;
  // A further stream that runs beside the compute stream. On the CPU: a worker thread.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) = 0;
  // Prepares the calling host thread to issue work here (current device, OpenMP team size). Call
  // once per thread.
  virtual void BindThread() = 0;

  // Asynchronous on `stream`, which must belong to this device; memory must stay valid until it has
  // run.
  virtual absl::Status Copy(void* dst, const void* src, size_t bytes, Stream& stream) = 0;
  virtual absl::Status CopyFromHost(void* dst, const void* host_src, size_t bytes,
                                    Stream& stream) = 0;
  virtual absl::Status CopyToHost(void* host_dst, const void* src, size_t bytes,
                                  Stream& stream) = 0;
  virtual absl::Status FillZero(void* dst, size_t bytes, Stream& stream) = 0;
  // Whether its allocations are memory of the host, at full speed: what one may read and write in
  // place, once no stream works on it, where a copy through other host memory would be wasted.
  virtual bool MemoryIsHost() const { return false; }

  // Further memory for this rank's state, outside of the allocator's account. Unimplemented where
  // the device has none; InvalidArgument for options that mean nothing to it; the store's errors.
  virtual absl::StatusOr<std::shared_ptr<OffloadStore>> CreateOffloadStore(
      const OffloadStoreOptions& options);

  // Whether the two functions below are there. Otherwise they are Unimplemented.
  virtual bool CanRecord() const { return false; }
  // Waits for all streams of this device. From then on, until EndRecording() on the same thread,
  // what is enqueued on them is recorded and does not run; so waiting for a stream or an event,
  // copies from or to host memory, timed events and new streams are FailedPrecondition in between;
  // nor may a stream go away.
  // What has run before is enqueued without the one-time work (plans, caches) that a recording
  // would repeat: record nothing that has not run.
  virtual absl::Status BeginRecording();
  // Ends it, also after an error, whose caller drops the result. An error here, or of a call on
  // a stream in between, leaves no recording.
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndRecording();
};

// Device kinds by name. Thread-safe.
class DeviceRegistry {
 public:
  using Factory = std::function<absl::StatusOr<std::shared_ptr<Device>>(const DeviceOptions&)>;

  // Called by an implementation's static registration object. A second registration of a name is a
  // bug and aborts.
  static void Register(absl::string_view type, Factory factory);
  // NotFound lists the kinds that are linked in.
  static absl::StatusOr<std::shared_ptr<Device>> Create(absl::string_view type,
                                                        const DeviceOptions& options);
  // Sorted.
  static std::vector<std::string> Types();
};

// Put one at namespace scope in the implementation's .cc, in a target with alwayslink.
struct DeviceRegistration {
  DeviceRegistration(absl::string_view type, DeviceRegistry::Factory factory) {
    DeviceRegistry::Register(type, std::move(factory));
  }
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_DEVICE_DEVICE_H_
