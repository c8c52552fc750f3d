// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Streams of the CPU device. The compute stream runs work at once on the caller's thread; every
// other stream owns a worker thread, so that collectives proceed while the rank computes.

#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/device.h"

namespace zeroth {

// A stream on which CPU kernels and CPU collectives are enqueued.
class CpuStream : public Stream {
 public:
  using Work = std::function<absl::Status()>;

  // `stream` as a CpuStream. Aborts if it belongs to another kind of device, which is a bug.
  static CpuStream& From(Stream& stream);

  // Runs `work` after all work that was enqueued before, unless the stream has failed. An inline
  // stream runs it before returning, and returns its status. A worker stream returns the stream's
  // first error so far. `work` must own (by value) all that it uses. It is destroyed before work
  // enqueued later counts as done, so Synchronize() also releases the buffers that it held. An
  // exception from `work` becomes an Internal error of the stream.
  virtual absl::Status Enqueue(Work work) = 0;
};

// Runs work on the calling thread, one thread at a time. Work may enqueue further work, which runs
// at once. Wait() blocks the host until the event is done.
std::unique_ptr<CpuStream> NewInlineCpuStream(Device& device, absl::string_view name);

// Runs work in order on its own thread. `threads` is that thread's OpenMP team size. After a
// failure the remaining work is dropped, but events still become done, with the error, so that no
// thread waits forever. The destructor runs the work that is still enqueued, and joins the thread.
// Synchronize() from the stream's own work is a bug and aborts.
std::unique_ptr<CpuStream> NewWorkerCpuStream(Device& device, absl::string_view name, int threads);

}  // namespace zeroth
