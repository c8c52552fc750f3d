// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The reductions of NcclCommunicator: along the tree, and the library's own.

#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective_checks.h"
#include "zeroth/core/comm/cuda/tree_reduce.h"
#include "zeroth/core/comm/nccl/nccl_calls.h"
#include "zeroth/core/comm/nccl/nccl_communicator.h"
#include "zeroth/core/device/cuda/cuda_device.h"

namespace zeroth::nccl {
namespace {

// Up to this many bytes from all ranks together, one exchange is faster than two.
constexpr int64_t kSmallAllReduceBytes = 256 << 10;

// A reduction of `collective` with all of its recv as the destination; where the elements are
// remains to be said.
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
  if (world_->library_reduces() && IsFloatingPoint(collective.send.dtype) &&
      collective.call.reduce != ReduceOp::kMax) {
    return LibraryReduce(collective, stream);
  }
  if (collective.op == CollectiveOp::kReduceScatter) return TreeReduceScatter(collective, stream);
  const bool small = ByteSize(collective.recv) * size() <= kSmallAllReduceBytes;
  return small ? SmallAllReduce(collective, stream) : TreeAllReduce(collective, stream);
}

absl::Status NcclCommunicator::TreeReduceScatter(const Collective& collective,
                                                 cuda::CudaStream& stream) {
  const BufferView& send = collective.send;
  const size_t count = static_cast<size_t>(collective.recv.count);
  const size_t bytes = count * SizeOf(send.dtype);
  ZEROTH_ASSIGN_OR_RETURN(char* const others,
                          Scratch(bytes * static_cast<size_t>(size() - 1), stream));
  const ncclDataType_t type = TypeOf(send.dtype);
  if (size() > 1) {
    ZEROTH_RETURN_IF_ERROR(Exchange(
        *handle_, size(), rank(),
        [&](int peer, ncclComm_t communicator) {
          return ncclSend(Bytes(send) + static_cast<size_t>(peer) * bytes, count, type, peer,
                          communicator, stream.handle());
        },
        [&](int peer, ncclComm_t communicator) {
          const size_t place = static_cast<size_t>(peer < rank() ? peer : peer - 1);
          return ncclRecv(others + place * bytes, count, type, peer, communicator, stream.handle());
        }));
  }
  cuda::StridedReduction reduction = ReductionOf(collective);
  reduction.others = others;
  reduction.bytes_per_rank = static_cast<int64_t>(bytes);
  reduction.ranks = size();
  reduction.own = rank();
  reduction.own_elements = Bytes(send) + static_cast<size_t>(rank()) * bytes;
  return Launch(reduction, stream);
}

absl::Status NcclCommunicator::SmallAllReduce(const Collective& collective,
                                              cuda::CudaStream& stream) {
  const BufferView& buffer = collective.recv;
  const size_t bytes = static_cast<size_t>(ByteSize(buffer));
  ZEROTH_ASSIGN_OR_RETURN(char* const all, Scratch(bytes * static_cast<size_t>(size()), stream));
  ZEROTH_RETURN_IF_ERROR(handle_->Call("ncclAllGather", [&](ncclComm_t communicator) {
    return ncclAllGather(buffer.data, all, static_cast<size_t>(buffer.count), TypeOf(buffer.dtype),
                         communicator, stream.handle());
  }));
  cuda::StridedReduction reduction = ReductionOf(collective);
  reduction.others = all;
  reduction.bytes_per_rank = static_cast<int64_t>(bytes);
  reduction.ranks = size();
  return Launch(reduction, stream);
}

// A reduce-scatter of pieces that may differ by one rank's rest, and an all-gather of the results.
absl::Status NcclCommunicator::TreeAllReduce(const Collective& collective,
                                             cuda::CudaStream& stream) {
  const BufferView& buffer = collective.recv;
  const int64_t piece = (buffer.count + size() - 1) / size();
  const size_t element = SizeOf(buffer.dtype);
  const ncclDataType_t type = TypeOf(buffer.dtype);
  const auto begin = [&](int of) { return std::min(piece * of, buffer.count); };
  const auto count = [&](int of) { return static_cast<size_t>(begin(of + 1) - begin(of)); };
  const auto place = [&](int of) {
    return Bytes(buffer) + static_cast<size_t>(begin(of)) * element;
  };
  const size_t own_count = count(rank());
  const size_t own_bytes = own_count * element;
  ZEROTH_ASSIGN_OR_RETURN(char* const others,
                          Scratch(own_bytes * static_cast<size_t>(size() - 1), stream));
  ZEROTH_RETURN_IF_ERROR(Exchange(
      *handle_, size(), rank(),
      [&](int peer, ncclComm_t communicator) {
        return ncclSend(place(peer), count(peer), type, peer, communicator, stream.handle());
      },
      [&](int peer, ncclComm_t communicator) {
        const size_t at = static_cast<size_t>(peer < rank() ? peer : peer - 1);
        return ncclRecv(others + at * own_bytes, own_count, type, peer, communicator,
                        stream.handle());
      }));
  cuda::StridedReduction reduction = ReductionOf(collective);
  reduction.others = others;
  reduction.bytes_per_rank = static_cast<int64_t>(own_bytes);
  reduction.ranks = size();
  reduction.own = rank();
  reduction.own_elements = place(rank());
  reduction.destination = place(rank());
  reduction.count = static_cast<int64_t>(own_count);
  ZEROTH_RETURN_IF_ERROR(Launch(reduction, stream));
  return Exchange(
      *handle_, size(), rank(),
      [&](int peer, ncclComm_t communicator) {
        return ncclSend(place(rank()), own_count, type, peer, communicator, stream.handle());
      },
      [&](int peer, ncclComm_t communicator) {
        return ncclRecv(place(peer), count(peer), type, peer, communicator, stream.handle());
      });
}

// The library adds in the dtype on the wire; the mean is taken here, in float32, because ncclAvg
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
