// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Collectives between ranks: the interface. A back end is a folder (see local/) that hands out
// Communicators.

#ifndef ZEROTH_CORE_COMM_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// How elements of several ranks become one. Floating-point sums add along a fixed binary tree over
// ranks in float32 (ranks [0, n) split at n' = the largest power of two below n; each half
// likewise), whatever the dtype on the wire; kMean multiplies the sum by 1/n in float32 before it
// is rounded to the dtype. So a sum inside aligned groups of a power-of-two size followed by a sum
// across them has the bits of one flat sum. The maximum of floats is NaN if any of them is.
// Integers: kSum, which wraps around, and kMax only.
enum class ReduceOp : uint8_t { kSum, kMean, kMax };
absl::string_view ReduceOpName(ReduceOp op);

// A typed view of device memory: pointer, count and type belong together. Does not own.
struct BufferView {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;

  BufferView() = default;
  BufferView(void* first, int64_t elements, DType type)
      : data(first), count(elements), dtype(type) {}
  BufferView(const Tensor& tensor)  // NOLINT: a tensor is a view
      : data(tensor.raw_data()), count(tensor.numel()), dtype(tensor.dtype()) {}
};

// Memory that a transport knows, for as long as this lives (Communicator::Register).
class MemoryRegistration {
 public:
  virtual ~MemoryRegistration() = default;
};

// A group of ranks. All ranks of the group call the same collectives in the same order with the
// same operation, count, dtype, reduce op, root and label; calls are enqueued on a stream and
// return at once. What goes wrong is an error on all ranks, at the latest when the stream is
// synchronised; nothing hangs:
// - InvalidArgument: arguments that are wrong on one rank alone; names the rank, both values and
//   the label.
// - FailedPrecondition: calls that differ; names two ranks, what each called and with which label.
//   Or a rank that returned, or destroyed its communicator, while others wait for it; names it and
//   its last call.
// - DeadlineExceeded: a rank that did not call in time (LaunchOptions::timeout); names those that
//   are missing and the last call of each rank.
// - Other codes: a rank that failed or aborted; its error, with its number.
//
// After an error the communicator, and all of its world, is broken and every further call returns
// that error.
//
// Ranks are numbered within the group; messages number them within the world.
//
// Memory passed in must stay valid and, for inputs, unchanged until the stream has run the call.
// Calls of one communicator must come from one thread and be enqueued on one stream at a time:
// where two streams are to make progress independently, Split or Duplicate one communicator for
// each. Ranks that make the calls of all their communicators in one order are right everywhere; a
// back end whose hosts meet to enqueue (local, in GPU memory) asks for that.
//
// `label` names what the call is for, usually a unit; it appears in errors and in the record.
// Labels must match because units are often of one size, so that nothing else would tell two of
// them apart. Copied.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Which device of its kind this rank is to open (DeviceOptions::index), as its back end sees the
  // machine: ranks of one process share the first.
  virtual int device_index() const { return 0; }
  // The back end, group and member ranks of the world, for messages: "local world ranks [0, 1]".
  virtual std::string name() const = 0;

  // recv.count == send.count * size(); rank r's elements land at [r * send.count, (r + 1) *
  // send.count) of every recv. In place when send is that slice of recv.
  virtual absl::Status AllGather(BufferView send, BufferView recv, Stream& stream,
                                 absl::string_view label) = 0;
  // send.count == recv.count * size(); recv gets piece rank() of the reduction. In place when recv
  // is that slice of send; the other pieces of send keep their values then and otherwise. recv has
  // send's dtype, or is fp32 and gets the reduction unrounded. With `accumulate`, adds the
  // reduction to what recv holds (fp32 recv outside send, not kMax).
  virtual absl::Status ReduceScatter(BufferView send, BufferView recv, ReduceOp op, Stream& stream,
                                     absl::string_view label, bool accumulate = false) = 0;
  // In place; the same bits on every rank.
  virtual absl::Status AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                 absl::string_view label) = 0;
  // send.count == recv.count, divisible by size(): piece p of send becomes piece rank() of rank p's
  // recv, as it is. Not in place.
  virtual absl::Status AllToAll(BufferView send, BufferView recv, Stream& stream,
                                absl::string_view label) = 0;
  virtual absl::Status Broadcast(BufferView buffer, int root, Stream& stream,
                                 absl::string_view label) = 0;
  // Done on `stream` once every rank has come this far on its own stream.
  virtual absl::Status Barrier(Stream& stream, absl::string_view label) = 0;

  // Whether calls may be part of what a device records (Device::BeginRecording) and plays later:
  // then all ranks record the same calls and play them in the same order, and the communicator
  // outlives the recording. A back end whose hosts take part in each call has to say no.
  virtual bool SupportsRecording() const { return false; }

  // Where memory comes from that the transport can be told of: for DeviceOptions::transport_memory
  // of the device that device_index() names. nullptr: it need not be told of any.
  virtual std::shared_ptr<MemorySource> memory_source() { return nullptr; }
  // Tells the transport of memory that calls of this group will use, each at one offset from its
  // beginning on all ranks: then bytes may be sent without staging, and without the device's
  // multiprocessors. A matter of speed alone; nullptr where it makes no difference, on all ranks
  // alike. Collective on the host, synchronous, in one order with the calls; bytes and `label` are
  // the same on all ranks, and the memory is from Allocator::AllocateForTransport. Errors are those
  // of calls, InvalidArgument for other memory.
  // It ends with the result, of which each rank disposes by itself before the memory goes, once
  // calls that use it have run; or with the communicator.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegistration>> Register(BufferView,
                                                                       absl::string_view) {
    return nullptr;
  }
  // For who starts a run to read: how gathers are made where the transport has a choice, else
  // empty.
  virtual std::string GatherNote() const { return ""; }

  // Collective on the host, synchronous. Ranks with the same `color` form a new group, ordered by
  // (key, rank); a negative color joins none and returns nullptr. The new communicator orders its
  // calls independently of this one, and may outlive it, but not the world.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;
  // Split, for a group whose calls are gathers that run beside compute: a back end may leave the
  // device's multiprocessors to that. FailedPrecondition if it was asked to and cannot.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> SplitForGathers(int color, int key) {
    return Split(color, key);
  }
  // Split with everyone in one group.
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() { return Split(0, rank()); }

  // Breaks the communicator, and all that are split from the same world, on every rank: pending and
  // further calls return `reason` (not OK) after this rank's number. For a rank that cannot go on.
  // Thread-safe.
  virtual void Abort(const absl::Status& reason) = 0;
  // The error that broke it, or OK. Thread-safe.
  virtual absl::Status status() const = 0;

  // Calls and bytes of this rank by operation since construction, and the ordered record if it was
  // switched on.
  virtual const CommStats& stats() const = 0;
  virtual CommStats& stats() = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_COMMUNICATOR_H_
