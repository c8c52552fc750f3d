// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"
#include "zeroth/core/comm/nccl/nccl_world.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/two_level.h"
#include "zeroth/core/device/cuda/cuda_stream.h"

namespace zeroth::nccl {

// The latest call of a communicator. The next call has to run after it.
struct LastCall {
  const Stream* stream = nullptr;
  std::shared_ptr<Event> end = nullptr;
};

// The calls of one communicator in one recording. Ranks compare each call when they record it. They
// also compare each play, as one more call, so that errors name a rank that does not play, and the
// watchdog sees a play that does not finish. Used by the rank's thread.
class RecordedCalls final : public cuda::PlayObserver {
 public:
  // State that the communicator shares with its recorded calls.
  struct Shared {
    std::shared_ptr<World> world;
    uint32_t group = 0;
    std::shared_ptr<CallsInFlight> in_flight;
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
  // The play that is being enqueued.
  CollectiveCall play_;
  uint64_t number_ = 0;
  std::shared_ptr<Event> begin_;
};

// One rank's communicator of a group. Each has its own NCCL communicator, because NCCL runs the
// calls of one communicator in host order, whatever their streams.
//
// Reductions add in the fixed tree. In a group of equal nodes (process/node.h), ranks exchange data
// inside nodes and then across them, in blocks, with up to 64 MiB of kCommunication memory
// (two_level.h). In other groups they exchange the pieces all-to-all, with as many bytes on the
// wire as a ring, and each rank sums its own piece in float32. The other ranks' pieces then need
// (n-1)/n of the largest reduced buffer, or of the buffers that are reduced together. Small
// all-reduces gather everything instead.
class NcclCommunicator final : public CheckedCommunicator {
 public:
  // The group of all ranks; collective. Every `ranks_per_root` ranks meet at a root of NCCL's
  // start, where the library has ncclCommInitRankScalable (2.23). PyTorch and XLA have the same
  // default: below it one root is fast enough.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> CreateWorld(std::shared_ptr<World> world,
                                                                       int ranks_per_root = 128);
  ~NcclCommunicator() override;

  int rank() const override { return seat_.rank; }
  int size() const override { return static_cast<int>(seat_.world_ranks.size()); }
  int device_index() const override { return world_->device(); }
  std::string name() const override { return name_; }

  // Ranks agree on plays, and watch them, as they do with calls.
  bool SupportsRecording() const override { return true; }
  std::shared_ptr<MemorySource> memory_source() override;
  absl::StatusOr<std::unique_ptr<MemoryRegistration>> Register(BufferView memory,
                                                               absl::string_view label) override;
  std::string GatherNote() const override;

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return SplitBy(color, key, /*for_gathers=*/false);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> SplitForGathers(int color, int key) override {
    return SplitBy(color, key, /*for_gathers=*/true);
  }
  absl::Status status() const override { return world_->processes().status(); }

 private:
  NcclCommunicator(std::shared_ptr<World> world, ProcessWorld::Seat seat,
                   std::shared_ptr<Handle> handle, bool by_copy_engine);

  absl::StatusOr<std::unique_ptr<Communicator>> SplitBy(int color, int key, bool for_gathers);
  // Returns this communicator's calls in a recording. Registers them with the recording if they are
  // new.
  RecordedCalls& CallsIn(const std::shared_ptr<cuda::Playback>& playback);

  // Posts the calls, and enqueues their data movement as one NCCL group, which starts fewer
  // kernels. Copy engines accept gathers one by one. An error on this rank alone, such as wrong
  // arguments, breaks the world.
  absl::Status Enqueue(absl::Span<Collective> collectives, const absl::Status& checked,
                       Stream& stream) override;
  int world_rank() const override { return world_->processes().rank(); }
  void Break(const absl::Status& reason) override { world_->processes().Break(reason); }
  absl::Status Move(const Collective& collective, cuda::CudaStream& stream);
  absl::Status CheckStream(Stream& stream) const;
  // Returns scratch memory for what the other ranks send, valid until the next call.
  absl::StatusOr<char*> Scratch(size_t bytes, cuda::CudaStream& stream);

  // Makes `calls` in one NCCL group. They receive the communicator, and a function to call with the
  // result of each.
  using GroupedCalls =
      absl::FunctionRef<void(ncclComm_t communicator, absl::FunctionRef<void(ncclResult_t)> note)>;
  absl::Status InGroup(absl::string_view name, GroupedCalls calls);
  // Moves the messages as one NCCL group. Empty ones are left out.
  absl::Status Exchange(absl::Span<const RankMessage> messages, cuda::CudaStream& stream);
  // The functions below are in nccl_collectives.cc.
  absl::Status Gather(const Collective& collective, cuda::CudaStream& stream);
  absl::Status GatherTogether(absl::Span<const Collective> gathers, cuda::CudaStream& stream);
  // ncclAllGather of `count` elements from each rank.
  absl::Status GatherFrom(const void* send, void* recv, int64_t count, DType dtype,
                          cuda::CudaStream& stream);
  absl::Status AllReduceInTree(const Collective& collective, cuda::CudaStream& stream);
  absl::Status ScatterTogether(absl::Span<const Collective> scatters, cuda::CudaStream& stream);
  // Like Scratch, for several pieces. nullptr for empty ones.
  absl::StatusOr<std::vector<char*>> ScratchPieces(absl::Span<const int64_t> sizes,
                                                   cuda::CudaStream& stream);
  // Reduces this rank's piece of every rank's send into `to`, in the fixed tree.
  struct PieceReduction {
    const Collective& collective;
    Pieces pieces;
    BufferView to;
  };
  absl::Status ReducePieces(absl::Span<const PieceReduction> reductions, cuda::CudaStream& stream);
  absl::Status ReduceInTwoLevels(absl::Span<const PieceReduction> reductions,
                                 cuda::CudaStream& stream);
  // All-gathers the ranks' pieces of `buffer`.
  absl::Status GatherPieces(const Pieces& pieces, const BufferView& buffer,
                            cuda::CudaStream& stream);
  absl::Status SmallAllReduce(const Collective& collective, cuda::CudaStream& stream);
  // True if NCCL's own reduction is used for this collective.
  bool LibraryReduces(const Collective& collective) const;
  // Runs `collectives`, which are of one operation, by NCCL.
  absl::Status LibraryReduce(absl::Span<const Collective> collectives, cuda::CudaStream& stream);

  const std::shared_ptr<World> world_;
  const ProcessWorld::Seat seat_;
  const std::shared_ptr<Handle> handle_;
  const std::shared_ptr<CallsInFlight> in_flight_;
  const std::shared_ptr<cuda::HostCondition> agreement_;
  const std::string name_;
  const NodeGrid grid_;
  const bool by_copy_engine_;
  // Used by the last call. The next call runs after that one, and so may use it too.
  std::shared_ptr<Buffer> scratch_;
  const std::shared_ptr<LastCall> last_call_ = std::make_shared<LastCall>();
  // The latest recording that contains calls, those calls, and the last of them.
  std::weak_ptr<cuda::Playback> recorded_in_;
  std::shared_ptr<RecordedCalls> recorded_;
  LastCall last_recorded_;
};

}  // namespace zeroth::nccl
