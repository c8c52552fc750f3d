// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The gathers of NcclCommunicator, alone and together, and its reductions: in the fixed tree, and
// by NCCL itself.

#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/cuda/tree_reduce.h"
#include "zeroth/core/comm/nccl/nccl_communicator.h"
#include "zeroth/core/comm/two_level.h"
#include "zeroth/core/device/cuda/cuda_device.h"

namespace zeroth::nccl {
namespace {

// Up to this many bytes from all ranks together, one exchange is faster than two.
constexpr int64_t kSmallAllReduceBytes = 256 << 10;

// Returns the reduction of `collective`, which writes its whole recv buffer. The caller sets the
// addresses of the ranks' elements.
StridedReduction ReductionOf(const Collective& collective) {
  StridedReduction reduction;
  reduction.destination = collective.recv.data;
  reduction.count = collective.recv.count;
  reduction.dtype = collective.send.dtype;
  reduction.result_dtype = collective.recv.dtype;
  reduction.op = *collective.call.reduce;
  reduction.accumulate = collective.accumulate;
  return reduction;
}

absl::Status Launch(const StridedReduction& reduction, cuda::CudaStream& stream) {
  const int multiprocessors = cuda::CudaDevice::From(stream.device()).properties().multiprocessors;
  return stream.Update(cuda::TreeReduce(reduction, multiprocessors, stream.handle()));
}

}  // namespace

absl::Status NcclCommunicator::GatherTogether(absl::Span<const Collective> gathers,
                                              cuda::CudaStream& stream) {
  // NCCL's copy engines accept one gather at a time.
  if (by_copy_engine_) {
    for (const Collective& gather : gathers) ZEROTH_RETURN_IF_ERROR(Move(gather, stream));
    return absl::OkStatus();
  }
  return InGroup("ncclAllGather", [&](ncclComm_t communicator, auto note) {
    for (const Collective& gather : gathers) {
      const BufferView& send = gather.send;
      if (send.count == 0) continue;
      note(ncclAllGather(send.data, gather.recv.data, static_cast<size_t>(send.count),
                         TypeOf(send.dtype), communicator, stream.handle()));
    }
  });
}

absl::Status NcclCommunicator::Gather(const Collective& collective, cuda::CudaStream& stream) {
  const BufferView& send = collective.send;
  const BufferView& recv = collective.recv;
  const void* own = send.data;
  void* const place = Piece(recv, rank(), send.count).data;
  // Copy engines move registered memory only, which shards are not in. So this rank's shard is
  // copied into its place first, which costs 1/n of the gathered bytes inside the device.
  if (by_copy_engine_ && own != place &&
      handle_->HasWindow(recv.data, static_cast<size_t>(ByteSize(recv)))) {
    ZEROTH_RETURN_IF_ERROR(
        stream.device().Copy(place, own, static_cast<size_t>(ByteSize(send)), stream));
    own = place;
  }
  return GatherFrom(own, recv.data, send.count, send.dtype, stream);
}

absl::Status NcclCommunicator::GatherFrom(const void* send, void* recv, int64_t count, DType dtype,
                                          cuda::CudaStream& stream) {
  return handle_->Call("ncclAllGather", [&](ncclComm_t communicator) {
    return ncclAllGather(send, recv, static_cast<size_t>(count), TypeOf(dtype), communicator,
                         stream.handle());
  });
}

bool NcclCommunicator::LibraryReduces(const Collective& collective) const {
  return world_->library_reduces() && IsFloatingPoint(collective.send.dtype) &&
         collective.call.reduce != ReduceOp::kMax;
}

absl::Status NcclCommunicator::ScatterTogether(absl::Span<const Collective> scatters,
                                               cuda::CudaStream& stream) {
  // Use one algorithm for all calls, because both would use the scratch memory.
  if (std::all_of(scatters.begin(), scatters.end(),
                  [&](const Collective& scatter) { return LibraryReduces(scatter); })) {
    return LibraryReduce(scatters, stream);
  }
  std::vector<PieceReduction> in_tree;
  for (const Collective& scatter : scatters) {
    in_tree.push_back({scatter, {scatter.recv.count, scatter.send.count}, scatter.recv});
  }
  return ReducePieces(in_tree, stream);
}

absl::Status NcclCommunicator::AllReduceInTree(const Collective& collective,
                                               cuda::CudaStream& stream) {
  const BufferView& recv = collective.recv;
  if (ByteSize(recv) * size() <= kSmallAllReduceBytes) return SmallAllReduce(collective, stream);
  // A reduce-scatter, whose last pieces may be shorter, and an all-gather of the results.
  const Pieces pieces = Pieces::OfLines(recv, size());
  const BufferView own = pieces.Of(recv, rank());
  ZEROTH_RETURN_IF_ERROR(ReducePieces({{collective, pieces, own}}, stream));
  return GatherPieces(pieces, recv, stream);
}

absl::Status NcclCommunicator::GatherPieces(const Pieces& pieces, const BufferView& buffer,
                                            cuda::CudaStream& stream) {
  std::vector<RankMessage> messages;
  const auto append = [&](const std::vector<RankMessage>& more) {
    messages.insert(messages.end(), more.begin(), more.end());
  };
  // Exchange this node's pieces inside it while pieces arrive from other nodes. In an undivided
  // group every node is one rank, and this exchange gathers everything.
  const TwoLevelGather gather(grid_, [&](int place) { return pieces.Of(buffer, place); });
  append(gather.LocalMessages(0));
  for (int step = 1; step < gather.steps(); ++step) append(gather.CrossMessages(step));
  ZEROTH_RETURN_IF_ERROR(Exchange(messages, stream));
  messages.clear();
  for (int step = 1; step < gather.steps(); ++step) append(gather.LocalMessages(step));
  return Exchange(messages, stream);
}

absl::StatusOr<std::vector<char*>> NcclCommunicator::ScratchPieces(absl::Span<const int64_t> sizes,
                                                                   cuda::CudaStream& stream) {
  // Kernels load vectors, so each piece begins at a multiple of this.
  constexpr int64_t kAlignment = 256;
  std::vector<int64_t> begins;
  int64_t total = 0;
  for (const int64_t bytes : sizes) {
    begins.push_back((total + kAlignment - 1) / kAlignment * kAlignment);
    if (bytes > 0) total = begins.back() + bytes;
  }
  ZEROTH_ASSIGN_OR_RETURN(char* const scratch, Scratch(static_cast<size_t>(total), stream));
  std::vector<char*> pieces;
  for (size_t i = 0; i < sizes.size(); ++i) {
    pieces.push_back(sizes[i] > 0 ? scratch + begins[i] : nullptr);
  }
  return pieces;
}

absl::Status NcclCommunicator::ReducePieces(absl::Span<const PieceReduction> reductions,
                                            cuda::CudaStream& stream) {
  if (grid_.has_two_levels()) return ReduceInTwoLevels(reductions, stream);
  // Other ranks' pieces lie a whole piece apart, also where this rank's is a shorter rest: kernels
  // load vectors only if every piece is aligned.
  const auto bytes_per_rank = [](const PieceReduction& reduction) {
    return reduction.pieces.piece * static_cast<int64_t>(SizeOf(reduction.collective.send.dtype));
  };
  std::vector<int64_t> staging;  // bytes for what the other ranks send
  for (const PieceReduction& reduction : reductions) {
    staging.push_back(bytes_per_rank(reduction) * (size() - 1));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<char*> scratch, ScratchPieces(staging, stream));
  std::vector<StridedReduction> launches;
  std::vector<RankMessage> messages;
  for (size_t i = 0; i < reductions.size(); ++i) {
    const auto& [collective, pieces, to] = reductions[i];
    const BufferView own = pieces.Of(collective.send, rank());
    StridedReduction reduction = ReductionOf(collective);
    reduction.others = scratch[i];
    reduction.bytes_per_rank = bytes_per_rank(reductions[i]);
    reduction.ranks = size();
    reduction.own = rank();
    reduction.own_elements = own.data;
    reduction.destination = to.data;
    reduction.count = own.count;
    launches.push_back(reduction);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const int place = peer < rank() ? peer : peer - 1;
      messages.push_back(SendTo(peer, pieces.Of(collective.send, peer)));
      messages.push_back(
          ReceiveFrom(peer, {scratch[i] + place * reduction.bytes_per_rank, own.count, own.dtype}));
    }
  }
  ZEROTH_RETURN_IF_ERROR(Exchange(messages, stream));
  for (const StridedReduction& reduction : launches) {
    ZEROTH_RETURN_IF_ERROR(Launch(reduction, stream));
  }
  return absl::OkStatus();
}

// Runs as many reductions side by side as the scratch can hold, because each exchange takes time to
// start.
absl::Status NcclCommunicator::ReduceInTwoLevels(absl::Span<const PieceReduction> reductions,
                                                 cuda::CudaStream& stream) {
  const TwoLevelReduction::Limits limits = LimitsInOrder(grid_);
  const auto most = static_cast<size_t>(limits.scratch_bytes);
  const auto scratch_bytes = [&](const PieceReduction& reduction) {
    return TwoLevelReduction::ScratchBytes(grid_, reduction.pieces, reduction.collective.send.dtype,
                                           limits);
  };
  size_t total = 0;
  size_t largest = 0;
  for (const PieceReduction& reduction : reductions) {
    total += scratch_bytes(reduction);
    largest = std::max(largest, scratch_bytes(reduction));
  }
  ZEROTH_ASSIGN_OR_RETURN(char* const scratch,
                          Scratch(std::max(largest, std::min(total, most)), stream));
  std::vector<TwoLevelReduction> together;
  const auto run = [&] {
    return RunInOrder(
        together, [&](const auto& messages) { return Exchange(messages, stream); },
        [&](const StridedReduction& sum) { return Launch(sum, stream); });
  };
  size_t used = 0;
  for (const PieceReduction& reduction : reductions) {
    const auto& [collective, pieces, to] = reduction;
    const size_t bytes = scratch_bytes(reduction);
    if (used + bytes > most && used > 0) {
      ZEROTH_RETURN_IF_ERROR(run());
      together.clear();
      used = 0;
    }
    together.emplace_back(collective, collective.send, to, pieces, grid_, limits, scratch + used);
    used += bytes;
  }
  return run();
}

absl::Status NcclCommunicator::SmallAllReduce(const Collective& collective,
                                              cuda::CudaStream& stream) {
  const BufferView& buffer = collective.recv;
  const int64_t bytes = ByteSize(buffer);
  ZEROTH_ASSIGN_OR_RETURN(char* const all, Scratch(static_cast<size_t>(bytes * size()), stream));
  ZEROTH_RETURN_IF_ERROR(GatherFrom(buffer.data, all, buffer.count, buffer.dtype, stream));
  StridedReduction reduction = ReductionOf(collective);
  reduction.others = all;
  reduction.bytes_per_rank = bytes;
  reduction.ranks = size();
  return Launch(reduction, stream);
}

// NCCL adds in the dtype on the wire. The mean is computed here, in float32, because ncclAvg
// multiplies by 1/n rounded to the dtype, which for bf16 is off by 0.2 % at 3 or 7 ranks.
absl::Status NcclCommunicator::LibraryReduce(absl::Span<const Collective> collectives,
                                             cuda::CudaStream& stream) {
  const auto needs_no_scratch = [](const Collective& collective) {
    return !collective.accumulate && collective.recv.dtype == collective.send.dtype;
  };
  std::vector<int64_t> sizes;  // bytes of scratch
  for (const Collective& collective : collectives) {
    const auto size = static_cast<int64_t>(SizeOf(collective.send.dtype));
    sizes.push_back(needs_no_scratch(collective) ? 0 : collective.recv.count * size);
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<char*> scratch, ScratchPieces(sizes, stream));
  std::vector<void*> sums;
  for (size_t i = 0; i < collectives.size(); ++i) {
    sums.push_back(needs_no_scratch(collectives[i]) ? collectives[i].recv.data : scratch[i]);
  }
  const bool scatters = collectives[0].op == CollectiveOp::kReduceScatter;
  ZEROTH_RETURN_IF_ERROR(InGroup(
      scatters ? "ncclReduceScatter" : "ncclAllReduce", [&](ncclComm_t communicator, auto note) {
        const auto reduce = scatters ? ncclReduceScatter : ncclAllReduce;
        for (size_t i = 0; i < sums.size(); ++i) {
          const BufferView& send = collectives[i].send;
          if (send.count == 0) continue;
          note(reduce(send.data, sums[i], static_cast<size_t>(collectives[i].recv.count),
                      TypeOf(send.dtype), ncclSum, communicator, stream.handle()));
        }
      }));
  for (size_t i = 0; i < sums.size(); ++i) {
    const Collective& collective = collectives[i];
    if (collective.recv.count == 0) continue;
    if (needs_no_scratch(collective) && collective.call.reduce == ReduceOp::kSum) continue;
    StridedReduction finish = ReductionOf(collective);
    finish.others = sums[i];
    finish.mean_of = size();
    ZEROTH_RETURN_IF_ERROR(Launch(finish, stream));
  }
  return absl::OkStatus();
}

}  // namespace zeroth::nccl
