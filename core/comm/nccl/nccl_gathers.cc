// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The gathers of NcclCommunicator, alone and together.

#include <nccl.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/nccl/nccl_communicator.h"
#include "zeroth/core/device/device.h"

namespace zeroth::nccl {

absl::Status NcclCommunicator::AllGatherTogether(absl::Span<const GatherBuffers> gathers,
                                                 Stream& stream, absl::string_view label) {
  absl::Status checked;
  std::vector<Collective> collectives;
  for (const auto& [send, recv] : gathers) {
    checked.Update(CheckAllGather(send, recv, rank(), size()));
    collectives.push_back(AllGatherOf(send, recv, label));
  }
  return SubmitAll(std::move(collectives), checked, stream);
}

absl::Status NcclCommunicator::GatherTogether(absl::Span<const Collective> gathers,
                                              cuda::CudaStream& stream) {
  // NCCL's copy engines take one gather at a time.
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

}  // namespace zeroth::nccl
