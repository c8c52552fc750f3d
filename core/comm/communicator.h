// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The interface of collectives between ranks. A back end is a folder (see local/) that implements
// Communicator.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// How a collective reduces the elements of several ranks. Floating-point sums add in float32 along
// a fixed binary tree over ranks, whatever the dtype on the wire: ranks [0, n) are split at the
// largest power of two below n, and each half likewise. kMean multiplies the sum by 1/n in float32
// before it is rounded to the dtype. So a sum inside aligned groups of a power-of-two size,
// followed by a sum across the groups, has the bits of one flat sum. The maximum of floats is NaN
// if any of them is. Integers allow only kSum, which wraps around, and kMax.
enum class ReduceOp : uint8_t { kSum, kMean, kMax };
absl::string_view ReduceOpName(ReduceOp op);

// A typed view of device memory. Does not own it.
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

// The division of an all-to-all's buffers into uneven pieces: one count for each rank of the group,
// in order; the counts add up to the buffer's. Empty: equal pieces.
struct AllToAllCounts {
  std::vector<int64_t> send;
  std::vector<int64_t> recv;

  bool uneven() const { return !send.empty() || !recv.empty(); }
};

// The buffers of one gather, as for Communicator::AllGather.
struct GatherBuffers {
  BufferView send;
  BufferView recv;
};

// The buffers of one reduction, as for Communicator::ReduceScatter.
struct ReductionBuffers {
  BufferView send;
  BufferView recv;
  bool accumulate = false;
};

// Memory stays registered with a transport while this object exists (Communicator::Register).
class MemoryRegistration {
 public:
  virtual ~MemoryRegistration() = default;
};

// A group of ranks. All ranks of the group make the same calls in the same order, with the same
// operation, count, dtype, reduce op, root and label. Calls are enqueued on a stream and return at
// once. Nothing hangs: a mistake or a failure is an error on all ranks, at the latest when the
// stream is synchronised:
// - InvalidArgument: the arguments of one rank are wrong by themselves. Names the rank, both values
//   and the label.
// - FailedPrecondition: the ranks' calls differ. Names two ranks, and each one's call and label. It
//   is also the error when a rank returned, or destroyed its communicator, while others wait for
//   it. Names the rank and its last call.
// - DeadlineExceeded: a rank did not call in time (LaunchOptions::timeout). Names the missing
//   ranks, and the last call of each rank.
// - Other codes: a rank failed or aborted. The error of that rank, with its number.
//
// After an error the communicator is broken, and so is its whole world: every further call returns
// that error.
//
// Ranks are numbered within the group; messages number them within the world.
//
// Memory that is passed in must stay valid, and inputs unchanged, until the stream has run the
// call. Calls of one communicator must come from one thread, and be enqueued on one stream at a
// time. If two streams have to make progress independently, Split or Duplicate a communicator for
// each. It is always right if all ranks make the calls of all their communicators in one order.
// Back ends whose host threads meet to enqueue a call (local, in GPU memory) require that.
//
// `label` says what the call is for, usually a unit. It appears in errors and in the record. Labels
// must match, because units often have the same size, and only the label tells their calls apart.
// The label is copied.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The index of the device that this rank has to open (DeviceOptions::index). Ranks of one process
  // share the first device.
  virtual int device_index() const { return 0; }
  // The back end and the group's world ranks, for messages: "local world ranks [0, 1]".
  virtual std::string name() const = 0;

  // recv.count == send.count * size(). Rank r's elements arrive at [r * send.count, (r + 1) *
  // send.count) of every recv. In place if send is this rank's slice of recv.
  virtual absl::Status AllGather(BufferView send, BufferView recv, Stream& stream,
                                 absl::string_view label) = 0;
  // send.count == recv.count * size(). recv receives piece rank() of the reduction. In place if
  // recv is that slice of send. The other pieces of send always keep their values. recv has send's
  // dtype, or is fp32 and receives the reduction unrounded. With `accumulate`, adds the reduction
  // to the values in recv, which must be fp32 and outside of send; not for kMax.
  virtual absl::Status ReduceScatter(BufferView send, BufferView recv, ReduceOp op, Stream& stream,
                                     absl::string_view label, bool accumulate = false) = 0;
  // Reduces in place. The result has the same bits on every rank.
  virtual absl::Status AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                 absl::string_view label) = 0;
  // Copies piece p of send to piece rank() of rank p's recv. Not in place. Without `counts`, pieces
  // are equal: send.count == recv.count, divisible by size(). With `counts`, every rank passes
  // some, and rank r's send count for p must equal rank p's receive count for r. If they differ and
  // the transport cannot compare them, the received values are undefined.
  virtual absl::Status AllToAll(BufferView send, BufferView recv, Stream& stream,
                                absl::string_view label, const AllToAllCounts& counts = {}) = 0;
  virtual absl::Status Broadcast(BufferView buffer, int root, Stream& stream,
                                 absl::string_view label) = 0;
  // Completes on `stream` once every rank's stream has reached its barrier.
  virtual absl::Status Barrier(Stream& stream, absl::string_view label) = 0;

  // Like AllGather for each of `gathers`, or ReduceScatter for each of `reductions`, such as those
  // of all parameters of a unit. A transport may batch the calls into one operation, and then run
  // them in any order or at once. So the buffers of different calls must not overlap. Ranks compare
  // them, and CommStats counts them, as separate calls. All ranks pass equally many, which nothing
  // compares.
  virtual absl::Status AllGatherAll(absl::Span<const GatherBuffers> gathers, Stream& stream,
                                    absl::string_view label);
  virtual absl::Status ReduceScatterAll(absl::Span<const ReductionBuffers> reductions, ReduceOp op,
                                        Stream& stream, absl::string_view label);

  // True if a device may record calls (Device::BeginRecording) and play them later. Then all ranks
  // have to record the same calls and play them in the same order, and the communicator must
  // outlive the recording. False for back ends whose host threads take part in each call.
  virtual bool SupportsRecording() const { return false; }

  // The source of memory that the transport can register, for DeviceOptions::transport_memory of
  // device device_index(). nullptr if the transport does not register memory.
  virtual std::shared_ptr<MemorySource> memory_source() { return nullptr; }
  // Registers memory that calls of this group will use, each call at the same offset on all ranks.
  // Then data may be sent without staging, and without occupying the device's SMs. Only speed
  // changes. Returns nullptr, on all ranks, if it makes no difference. Collective on the host,
  // synchronous, and in one order with the calls. Size and `label` are the same on all ranks.
  // Errors are those of calls, and InvalidArgument unless the memory is from
  // Allocator::AllocateForTransport. The registration ends with the result, or with the
  // communicator. Each rank destroys its result before it frees the memory, after the calls that
  // use it have run.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegistration>> Register(BufferView,
                                                                       absl::string_view) {
    return nullptr;
  }
  // A line for the user that says how gathers are made. Empty if the transport has no choice.
  virtual std::string GatherNote() const { return ""; }

  // Ranks with the same `color` form a new group, ordered by (key, rank). A rank with a negative
  // color joins none and gets nullptr. Collective on the host, synchronous. The new communicator
  // orders its calls independently of this one. It may outlive this one, but not the world.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;
  // Like Split, for a group whose calls are gathers that overlap with compute. The back end may
  // choose a way to gather that uses no SMs. FailedPrecondition if the options demand that and it
  // cannot.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> SplitForGathers(int color, int key) {
    return Split(color, key);
  }
  // Like Split, or SplitForGathers, for a caller that knows the members of this rank's new group,
  // in its order: ranks of this group, with this one among them. Ranks of one color pass the same
  // members. Needed by communicators that simulate one rank (core/comm/planned), which cannot ask
  // the others.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> SplitInto(absl::Span<const int> members,
                                                                  int color, bool for_gathers);
  // Like Split, with all ranks in one group.
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() { return Split(0, rank()); }

  // Breaks the whole world on every rank, for a rank that cannot continue: pending and further
  // calls return `reason` (not OK), with this rank's number. Thread-safe.
  virtual void Abort(const absl::Status& reason) = 0;
  // The error that broke the world, or OK. Thread-safe.
  virtual absl::Status status() const = 0;

  // This rank's calls and bytes by operation since construction, and the ordered record if it is
  // on.
  virtual const CommStats& stats() const = 0;
  virtual CommStats& stats() = 0;
};

}  // namespace zeroth
