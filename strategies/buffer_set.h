// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Returns an uninitialised tensor [numel] that `writer` may write. The compute stream may not have
// finished with what the memory held before, so any other stream is made to wait for it.
absl::StatusOr<Tensor> Allocate(Device& device, int64_t numel, DType dtype, MemoryCategory category,
                                Stream& writer);

// Tensors that share one buffer, one after the other, each 64-byte aligned.
struct PackedTensor {
  int64_t numel = 0;
  DType dtype = DType::kFloat32;
};
int64_t PackedBytes(absl::Span<const PackedTensor> tensors);
// Returns the tensors as views of a buffer of at least PackedBytes; undefined if the buffer is.
std::vector<Tensor> PackedIn(const Tensor& buffer, absl::Span<const PackedTensor> tensors);

// A fixed set of buffers that units use one after the other, so that peak memory follows a formula
// and never fragments. The stream that writes a released buffer next waits for the event of its
// last use, so the host never waits. Buffers within the limit are registered with the transport if
// it supports that (Communicator::Register); registered buffers are freed with the set. Used by one
// rank's thread only.
class BufferSet {
 public:
  // `sizes` (at least one, in bytes) are the sizes of buffers. Buffers are allocated when they are
  // first needed, at most `limit` of each size unless Acquire has to exceed it.
  BufferSet(Device& device, MemoryCategory category, std::vector<int64_t> sizes, int limit);
  // Registers buffers that are allocated from now on with the transport of these groups. An Acquire
  // that allocates is then collective over the groups, and no collective may use the buffers once
  // the set is destroyed.
  void RegisterWith(std::vector<Communicator*> groups) { groups_ = std::move(groups); }

  // Returns the bytes of the buffer that Acquire returns.
  int64_t SizeFor(int64_t bytes);
  // True if Acquire would stay within the limit: a buffer is free or may still be allocated.
  bool HasRoom(int64_t bytes);
  // Returns a buffer of the smallest size that holds `bytes`, after making `stream` wait for the
  // buffer's last user. Exceeds the limit if all are in use: limits restrain prefetches, not work
  // that is needed now. A request above the set's sizes gets a separate buffer. An error leaves the
  // set as it was.
  absl::StatusOr<Tensor> Acquire(int64_t bytes, Stream& stream);
  // Gives a buffer back; `last_use` is nullptr if its last use is done.
  void Release(Tensor buffer, std::shared_ptr<Event> last_use);
  // Returns the free, unregistered buffers to the allocator, after making the compute stream wait
  // for their last users. If the compute stream has failed, returns its error, and keeps what may
  // be in use until the next Trim.
  absl::Status Trim();

 private:
  struct Used {
    Tensor buffer;
    std::shared_ptr<Event> last_use;
  };
  struct SizeClass {
    int64_t bytes = 0;
    int in_use = 0;
    std::deque<Used> free = {};  // oldest first, since its event is the likeliest to be done
  };
  // A buffer that is registered with a transport.
  struct Registered {
    Tensor buffer;
    std::vector<std::unique_ptr<MemoryRegistration>> with = {};  // destroyed before the memory
  };

  // Allocates a buffer that is freed with the set; undefined if no transport registers it.
  absl::StatusOr<Tensor> AllocateRegistered(int64_t bytes);
  bool IsRegistered(const Tensor& buffer) const;
  // Frees a buffer in the order of the compute stream, since the allocator may reuse its memory in
  // that order at once. If that stream has failed, returns its error, and keeps the buffer until
  // its last use is done.
  absl::Status Free(Used used);
  // Frees the kept buffers that are no longer in use: all of them, if all streams are idle.
  void FreeDone();
  // Returns the class of the smallest buffers that hold `bytes`; nullptr if there is none.
  SizeClass* ClassOf(int64_t bytes);

  Device& device_;
  MemoryCategory category_;
  std::vector<SizeClass> classes_;  // by size
  int limit_;
  std::vector<Communicator*> groups_;
  std::vector<Registered> registered_;
  std::vector<Used> kept_;  // freed, but their last use is not done
};

// Scratch memory of one stream. One allocation is enough, because the stream's work runs in order.
// Used by one rank's thread only.
class StreamScratch {
 public:
  StreamScratch(Device& device, MemoryCategory category) : device_(device), category_(category) {}

  // Returns fp32 [numel], or uint8 [bytes], for the work that `comm` enqueues next, until the next
  // call of either. `comm` is always the same stream.
  absl::StatusOr<Tensor> Take(int64_t numel, Stream& comm);
  absl::StatusOr<Tensor> TakeBytes(int64_t bytes, Stream& comm);
  // Frees the memory after making the compute stream wait for its last use. If the compute stream
  // has failed, the host waits instead, and the error is returned.
  absl::Status Trim();

 private:
  Device& device_;
  MemoryCategory category_;
  Tensor memory_;
  Stream* stream_ = nullptr;  // uses the memory
};

}  // namespace zeroth
