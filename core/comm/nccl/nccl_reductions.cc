// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The reductions of NcclCommunicator: in the fixed tree, and by NCCL itself.

#include <nccl.h>

#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/cuda/tree_reduce.h"
#include "zeroth/core/comm/nccl/nccl_communicator.h"
#include "zeroth/core/device/cuda/cuda_device.h"

namespace zeroth::nccl {
namespace {

// Up to this many bytes from all ranks together, one exchange is faster than two.
constexpr int64_t kSmallAllReduceBytes = 256 << 10;

// The reduction that `collective` asks for, into all of its recv. The caller adds where the ranks'
// elements are.
cuda::StridedReduction ReductionOf(const Collective& collective) {
  cuda::StridedReduction reduction;
  reduction.destination = collective.recv.data;
  reduction.count = collective.recv.count;
  reduction.dtype = collective.send.dtype;
  reduction.result_dtype = collective.recv.dtype;
  reduction.op = *collective.call.reduce;
  reduction.accumulate = collective.accumulate;
  return reduction;
}

absl::Status Launch(const cuda::StridedReduction& reduction, cuda::CudaStream& stream) {
  const int multiprocessors = cuda::CudaDevice::From(stream.device()).properties().multiprocessors;
  return stream.Update(cuda::TreeReduce(reduction, multiprocessors, stream.handle()));
}

}  // namespace

absl::Status NcclCommunicator::Reduce(const Collective& collective, cuda::CudaStream& stream) {
  const BufferView& recv = collective.recv;
  if (world_->library_reduces() && IsFloatingPoint(collective.send.dtype) &&
      collective.call.reduce != ReduceOp::kMax) {
    return LibraryReduce(collective, stream);
  }
  if (collective.op == CollectiveOp::kReduceScatter) {
    return ReducePiece(collective, {recv.count, collective.send.count}, recv, stream);
  }
  if (ByteSize(recv) * size() <= kSmallAllReduceBytes) return SmallAllReduce(collective, stream);
  // A reduce-scatter, whose last pieces may be shorter, and an all-gather of the results.
  const Pieces pieces = {(recv.count + size() - 1) / size(), recv.count};
  const BufferView own = pieces.Of(recv, rank());
  ZEROTH_RETURN_IF_ERROR(ReducePiece(collective, pieces, own, stream));
  return Exchange([&](int) { return own; }, [&](int peer) { return pieces.Of(recv, peer); },
                  /*except=*/rank(), stream);
}

absl::Status NcclCommunicator::ReducePiece(const Collective& collective, const Pieces& pieces,
                                           const BufferView& to, cuda::CudaStream& stream) {
  const BufferView& from = collective.send;
  const BufferView own = pieces.Of(from, rank());
  const int64_t bytes = ByteSize(own);
  ZEROTH_ASSIGN_OR_RETURN(char* const others,
                          Scratch(static_cast<size_t>(bytes * (size() - 1)), stream));
  if (size() > 1) {
    ZEROTH_RETURN_IF_ERROR(Exchange([&](int peer) { return pieces.Of(from, peer); },
                                    [&](int peer) {
                                      const int place = peer < rank() ? peer : peer - 1;
                                      return BufferView(others + place * bytes, own.count,
                                                        from.dtype);
                                    },
                                    /*except=*/rank(), stream));
  }
  cuda::StridedReduction reduction = ReductionOf(collective);
  reduction.others = others;
  reduction.bytes_per_rank = bytes;
  reduction.ranks = size();
  reduction.own = rank();
  reduction.own_elements = own.data;
  reduction.destination = to.data;
  reduction.count = own.count;
  return Launch(reduction, stream);
}

absl::Status NcclCommunicator::SmallAllReduce(const Collective& collective,
                                              cuda::CudaStream& stream) {
  const BufferView& buffer = collective.recv;
  const int64_t bytes = ByteSize(buffer);
  ZEROTH_ASSIGN_OR_RETURN(char* const all, Scratch(static_cast<size_t>(bytes * size()), stream));
  ZEROTH_RETURN_IF_ERROR(GatherFrom(buffer.data, all, buffer.count, buffer.dtype, stream));
  cuda::StridedReduction reduction = ReductionOf(collective);
  reduction.others = all;
  reduction.bytes_per_rank = bytes;
  reduction.ranks = size();
  return Launch(reduction, stream);
}

// NCCL adds in the dtype on the wire. The mean is computed here, in float32, because ncclAvg
// multiplies by 1/n rounded to the dtype, which for bf16 is off by 0.2 % at 3 or 7 ranks.
absl::Status NcclCommunicator::LibraryReduce(const Collective& collective,
                                             cuda::CudaStream& stream) {
  const BufferView& send = collective.send;
  const BufferView& recv = collective.recv;
  const size_t count = static_cast<size_t>(recv.count);
  void* sum = recv.data;
  if (collective.accumulate || recv.dtype != send.dtype) {
    ZEROTH_ASSIGN_OR_RETURN(sum, Scratch(count * SizeOf(send.dtype), stream));
  }
  const bool scatters = collective.op == CollectiveOp::kReduceScatter;
  ZEROTH_RETURN_IF_ERROR(
      handle_->Call(scatters ? "ncclReduceScatter" : "ncclAllReduce", [&](ncclComm_t communicator) {
        const auto reduce = scatters ? ncclReduceScatter : ncclAllReduce;
        return reduce(send.data, sum, count, TypeOf(send.dtype), ncclSum, communicator,
                      stream.handle());
      }));
  if (sum == recv.data && collective.call.reduce == ReduceOp::kSum) return absl::OkStatus();
  cuda::StridedReduction finish = ReductionOf(collective);
  finish.others = sum;
  finish.mean_of = size();
  return Launch(finish, stream);
}

}  // namespace zeroth::nccl
