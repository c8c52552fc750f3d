// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"
#include "zeroth/core/comm/nccl/nccl_world.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/device/cuda/cuda_stream.h"
#include "zeroth/core/device/cuda/playback.h"

namespace zeroth::nccl {

// Where a communicator's latest call is, after which its next one comes.
struct LastCall {
  const Stream* stream = nullptr;
  std::shared_ptr<Event> end = nullptr;
};

// The calls of one communicator in one recording. Ranks agree on them when they record, call by
// call; and on each play, as one call more, so that a rank which does not play is missed by name,
// and a play that the device does not finish is noticed. Used by the rank's thread.
class RecordedCalls final : public cuda::PlayObserver {
 public:
  // What the communicator itself uses.
  struct Shared {
    std::shared_ptr<World> world;
    uint32_t group = 0;
    std::shared_ptr<Traffic> traffic;
    std::shared_ptr<cuda::HostCondition> agreement;
    std::shared_ptr<LastCall> last_call;
    std::shared_ptr<CommStats> stats;
  };

  explicit RecordedCalls(Shared shared) : shared_(std::move(shared)) {}

  void Add(CollectiveOp op, int64_t bytes, const CollectiveCall& call);
  absl::Status BeforePlay(cuda::CudaStream& stream) override;
  absl::Status AfterPlay(cuda::CudaStream& stream, const std::shared_ptr<Event>& end) override;

 private:
  struct Call {
    CollectiveOp op = CollectiveOp::kBarrier;
    int64_t bytes = 0;
    CollectiveCall call = {};
  };

  const Shared shared_;
  std::vector<Call> calls_;
  // Of the play that is being enqueued.
  CollectiveCall play_;
  uint64_t number_ = 0;
  std::shared_ptr<Event> begin_;
};

// One rank's end of a group. Each has a communicator of the library to itself, because the library
// runs the calls of one communicator in host order, whatever their streams.
//
// Reductions add in the fixed tree: the pieces go all-to-all, with the bytes on the wire that a
// ring takes, and this rank adds its own up in float32. Small all-reduces gather everything
// instead. The pieces of the others need memory of kCommunication: (n-1)/n of the largest buffer
// reduced.
class NcclCommunicator final : public CheckedCommunicator {
 public:
  // The group of all ranks; collective.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> CreateWorld(
      std::shared_ptr<World> world);
  ~NcclCommunicator() override;

  int rank() const override { return seat_.rank; }
  int size() const override { return static_cast<int>(seat_.world_ranks.size()); }
  int device_index() const override { return world_->device(); }
  std::string name() const override { return name_; }

  // Plays are agreed on and watched like calls.
  bool SupportsRecording() const override { return true; }
  std::shared_ptr<MemorySource> memory_source() override;
  absl::StatusOr<std::unique_ptr<MemoryRegistration>> Register(BufferView memory,
                                                               absl::string_view label) override;
  std::string GatherNote() const override;

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  absl::StatusOr<std::unique_ptr<Communicator>> SplitForGathers(int color, int key) override;
  absl::Status status() const override { return world_->processes().status(); }

 private:
  NcclCommunicator(std::shared_ptr<World> world, ProcessWorld::Seat seat,
                   std::shared_ptr<Handle> handle, bool by_copy_engine);

  absl::StatusOr<std::unique_ptr<Communicator>> SplitInto(int color, int key, bool for_gathers);
  // This communicator's calls in a recording, of which it hears from now on when it is played.
  RecordedCalls& CallsIn(const std::shared_ptr<cuda::Playback>& playback);

  // Announces the call and has it moved. Wrong arguments and whatever else fails on this rank alone
  // break the world.
  absl::Status Enqueue(Collective collective, const absl::Status& checked, Stream& stream) override;
  int world_rank() const override { return world_->processes().rank(); }
  void Break(const absl::Status& reason) override { world_->processes().Break(reason); }
  absl::Status Move(const Collective& collective, cuda::CudaStream& stream);
  absl::Status CheckStream(Stream& stream) const;
  // Memory for what the other ranks send, until the next call.
  absl::StatusOr<char*> Scratch(size_t bytes, cuda::CudaStream& stream);

  // What the library is to send, of `send`, for a gather into `recv`.
  absl::StatusOr<const void*> GatherSource(const BufferView& send, const BufferView& recv,
                                           cuda::CudaStream& stream);
  absl::Status Gather(const Collective& collective, cuda::CudaStream& stream);
  absl::Status AllPairs(const Collective& collective, cuda::CudaStream& stream);
  // Along the tree, and the library's own; nccl_reductions.cc.
  absl::Status Reduce(const Collective& collective, cuda::CudaStream& stream);
  absl::Status TreeReduceScatter(const Collective& collective, cuda::CudaStream& stream);
  absl::Status TreeAllReduce(const Collective& collective, cuda::CudaStream& stream);
  absl::Status SmallAllReduce(const Collective& collective, cuda::CudaStream& stream);
  absl::Status LibraryReduce(const Collective& collective, cuda::CudaStream& stream);

  const std::shared_ptr<World> world_;
  const ProcessWorld::Seat seat_;
  const std::shared_ptr<Handle> handle_;
  const std::shared_ptr<Traffic> traffic_;
  const std::shared_ptr<cuda::HostCondition> agreement_;
  const std::string name_;
  const bool by_copy_engine_;
  // Keeps its stream's order: scratch_ belongs to the last call there.
  std::shared_ptr<Buffer> scratch_;
  const std::shared_ptr<LastCall> last_call_ = std::make_shared<LastCall>();
  // The latest recording with calls in it, and the last of these.
  std::weak_ptr<cuda::Playback> recorded_in_;
  std::shared_ptr<RecordedCalls> recorded_;
  LastCall last_recorded_;
};

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_COMMUNICATOR_H_
