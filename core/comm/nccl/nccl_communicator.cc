// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective_checks.h"
#include "zeroth/core/comm/cuda/tree_reduce.h"
#include "zeroth/core/device/cuda/cuda_device.h"

namespace zeroth::nccl {
namespace {

// Up to this many bytes from all ranks together, one exchange is faster than two.
constexpr int64_t kSmallAllReduceBytes = 256 << 10;

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
  }
  ZEROTH_CHECK(false);
}

char* Bytes(const BufferView& view) { return static_cast<char*>(view.data); }

// The first error of several calls that belong together, with every group ended that was begun.
class Group {
 public:
  Group() : result_(ncclGroupStart()) {}
  void Add(ncclResult_t result) {
    if (result_ == ncclSuccess && result != ncclInProgress) result_ = result;
  }
  ncclResult_t End() {
    const ncclResult_t ended = ncclGroupEnd();
    return result_ == ncclSuccess ? ended : result_;
  }

 private:
  ncclResult_t result_;
};

// Awaits that all ranks of a group have made the same calls.
class Agreement final : public cuda::HostCondition {
 public:
  Agreement(std::shared_ptr<ProcessWorld> world, uint32_t group)
      : world_(std::move(world)), group_(group) {}
  absl::Status Await(uint64_t count) override { return world_->AwaitAgreed(group_, count); }

 private:
  const std::shared_ptr<ProcessWorld> world_;
  const uint32_t group_;
};

int Multiprocessors(const cuda::CudaStream& stream) {
  return cuda::CudaDevice::From(stream.device()).properties().multiprocessors;
}

CollectiveCall MakeCall(int64_t count, DType dtype, absl::string_view label) {
  CollectiveCall call;
  call.count = count;
  call.dtype = dtype;
  call.label = std::string(label);
  return call;
}

std::string IdKey(uint32_t group) { return absl::StrCat("nccl id of group ", group); }

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::CreateWorld(
    std::shared_ptr<World> world) {
  ProcessWorld& processes = world->processes();
  const ProcessWorld::Seat seat = processes.WorldSeat();
  ncclUniqueId id = {};
  if (seat.rank == 0) {
    ZEROTH_RETURN_IF_ERROR(ToStatus(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr));
    ZEROTH_RETURN_IF_ERROR(
        processes.Put(IdKey(seat.group), absl::string_view(id.internal, sizeof(id.internal))));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(const std::string bytes, processes.Get(IdKey(seat.group)));
    if (bytes.size() != sizeof(id.internal)) {
      return absl::InternalError("rank 0 gave an NCCL id of another size");
    }
    std::memcpy(id.internal, bytes.data(), bytes.size());
  }
  const std::shared_ptr<Handle> handle = world->NewHandle(processes.NameOf(seat));
  const int ranks = static_cast<int>(seat.world_ranks.size());
  ZEROTH_RETURN_IF_ERROR(handle->Start("ncclCommInitRankConfig", /*by_copy_engine=*/false,
                                       [&](ncclComm_t* communicator, ncclConfig_t* config) {
                                         return ncclCommInitRankConfig(communicator, ranks, id,
                                                                       seat.rank, config);
                                       }));
  ZEROTH_RETURN_IF_ERROR(handle->Await("ncclCommInitRankConfig"));
  ZEROTH_RETURN_IF_ERROR(processes.Meet(seat.group));
  return std::unique_ptr<NcclCommunicator>(
      new NcclCommunicator(std::move(world), seat, handle, /*by_copy_engine=*/false));
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<World> world, ProcessWorld::Seat seat,
                                   std::shared_ptr<Handle> handle, bool by_copy_engine)
    : world_(std::move(world)),
      seat_(std::move(seat)),
      handle_(std::move(handle)),
      traffic_(world_->NewTraffic(seat_.group, handle_)),
      agreement_(std::make_shared<Agreement>(world_->shared_processes(), seat_.group)),
      windows_(std::make_shared<Windows>(handle_)),
      name_(world_->processes().NameOf(seat_)),
      by_copy_engine_(by_copy_engine) {}

NcclCommunicator::~NcclCommunicator() {
  world_->processes().Leave(seat_.group);
  traffic_->Keep(std::move(scratch_));
  world_->Retire(traffic_);
}

absl::Status NcclCommunicator::CheckStream(Stream& stream) const {
  const auto* const cuda_stream = dynamic_cast<const cuda::CudaStream*>(&stream);
  if (cuda_stream != nullptr && stream.device().index() == world_->device()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the stream '", stream.name(), "' belongs to ", stream.device().name(),
                   ", expected one of cuda:", world_->device(),
                   ", which this rank's NCCL communicators are made for"));
}

absl::Status NcclCommunicator::Fail(const absl::Status& error, absl::string_view what) {
  ProcessWorld& processes = world_->processes();
  if (absl::Status broken = processes.SettledStatus(); !broken.ok()) return broken;
  const absl::Status annotated = Annotate(error, absl::StrCat(world_->Failed(), ": ", what));
  processes.Break(annotated);
  return annotated;
}

absl::Status NcclCommunicator::Run(CollectiveOp op, const absl::Status& checked,
                                   CollectiveCall call, const BufferView& full, Stream& stream,
                                   const std::function<absl::Status(cuda::CudaStream&)>& enqueue) {
  ProcessWorld& processes = world_->processes();
  ZEROTH_RETURN_IF_ERROR(status());
  call.operation = CollectiveOpName(op);
  const auto fail = [&](const absl::Status& error) {
    return Fail(error, absl::StrCat(call.operation, " '", call.label, "' on ", name()));
  };
  if (!checked.ok()) return fail(checked);
  if (absl::Status wrong = CheckStream(stream); !wrong.ok()) return fail(wrong);
  stats_.Add(op, CollectiveBytes(op, ByteSize(full), size()), call.label);
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t number, processes.Post(seat_.group, call));
  call.index = number - 1;

  cuda::CudaStream& cuda_stream = cuda::CudaStream::From(stream);
  if (last_stream_ != &stream && last_end_ != nullptr) {
    if (absl::Status waited = stream.Wait(last_end_); !waited.ok()) return fail(waited);
  }
  const absl::StatusOr<std::shared_ptr<Event>> begin = stream.Record();
  if (!begin.ok()) return fail(begin.status());
  if (absl::Status enqueued = enqueue(cuda_stream); !enqueued.ok()) return fail(enqueued);
  cuda_stream.Require(agreement_, number);
  absl::StatusOr<std::shared_ptr<Event>> end = stream.Record();
  if (!end.ok()) return fail(end.status());
  last_stream_ = &stream;
  last_end_ = *end;
  traffic_->Add(call, number, *begin, *std::move(end));
  return absl::OkStatus();
}

absl::StatusOr<char*> NcclCommunicator::Scratch(size_t bytes, cuda::CudaStream& stream) {
  if (bytes <= scratch_bytes_) return scratch_data_;
  traffic_->Keep(std::move(scratch_));
  scratch_bytes_ = 0;
  Device& device = stream.device();
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer,
                          device.allocator().Allocate(bytes, MemoryCategory::kCommunication));
  // The compute stream may still be at work on what the memory was before.
  if (!stream.is_compute()) {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> free, device.compute_stream().Record());
    ZEROTH_RETURN_IF_ERROR(stream.Wait(free));
  }
  scratch_ = buffer;
  scratch_data_ = static_cast<char*>(buffer->data());
  scratch_bytes_ = bytes;
  return scratch_data_;
}

absl::Status NcclCommunicator::AllGather(BufferView send, BufferView recv, Stream& stream,
                                         absl::string_view label) {
  return Run(CollectiveOp::kAllGather, CheckAllGather(send, recv, rank(), size()),
             MakeCall(send.count, send.dtype, label), recv, stream,
             [&](cuda::CudaStream& on) -> absl::Status {
               if (send.count == 0) return absl::OkStatus();
               ZEROTH_ASSIGN_OR_RETURN(const void* const own, GatherSource(send, recv, on));
               return handle_->Call("ncclAllGather", [&](ncclComm_t communicator) {
                 return ncclAllGather(own, recv.data, static_cast<size_t>(send.count),
                                      TypeOf(send.dtype), communicator, on.handle());
               });
             });
}

// Copy engines move what is registered, which shards are not: this rank's part is first put in its
// place, at a cost of one copy inside the device of 1/n of what is gathered.
absl::StatusOr<const void*> NcclCommunicator::GatherSource(const BufferView& send,
                                                           const BufferView& recv,
                                                           cuda::CudaStream& stream) {
  const auto bytes = static_cast<size_t>(ByteSize(send));
  char* const place = Bytes(recv) + static_cast<size_t>(rank()) * bytes;
  if (!by_copy_engine_ || send.data == place ||
      !windows_->Contains(recv.data, static_cast<size_t>(ByteSize(recv)))) {
    return send.data;
  }
  ZEROTH_RETURN_IF_ERROR(stream.device().Copy(place, send.data, bytes, stream));
  return place;
}

absl::Status NcclCommunicator::ReduceScatter(BufferView send, BufferView recv, ReduceOp op,
                                             Stream& stream, absl::string_view label,
                                             bool accumulate) {
  CollectiveCall call = MakeCall(recv.count, send.dtype, label);
  call.reduce = op;
  const bool by_library =
      world_->library_reduces() && IsFloatingPoint(send.dtype) && op != ReduceOp::kMax;
  return Run(CollectiveOp::kReduceScatter,
             CheckReduceScatter(send, recv, op, accumulate, rank(), size()), std::move(call), send,
             stream, [&](cuda::CudaStream& on) {
               if (recv.count == 0) return absl::OkStatus();
               return by_library ? EnqueueLibraryReduceScatter(send, recv, op, accumulate, on)
                                 : EnqueueReduceScatter(send, recv, op, accumulate, on);
             });
}

absl::Status NcclCommunicator::EnqueueReduceScatter(const BufferView& send, const BufferView& recv,
                                                    ReduceOp op, bool accumulate,
                                                    cuda::CudaStream& stream) {
  const size_t count = static_cast<size_t>(recv.count);
  const size_t bytes = count * SizeOf(send.dtype);
  ZEROTH_ASSIGN_OR_RETURN(char* const others,
                          Scratch(bytes * static_cast<size_t>(size() - 1), stream));
  const ncclDataType_t type = TypeOf(send.dtype);
  if (size() > 1) {
    ZEROTH_RETURN_IF_ERROR(handle_->Call("all-to-all", [&](ncclComm_t communicator) {
      Group group;
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        const size_t place = static_cast<size_t>(peer < rank() ? peer : peer - 1);
        group.Add(ncclSend(Bytes(send) + static_cast<size_t>(peer) * bytes, count, type, peer,
                           communicator, stream.handle()));
        group.Add(
            ncclRecv(others + place * bytes, count, type, peer, communicator, stream.handle()));
      }
      return group.End();
    }));
  }
  cuda::StridedReduction reduction;
  reduction.others = others;
  reduction.bytes_per_rank = static_cast<int64_t>(bytes);
  reduction.ranks = size();
  reduction.own = rank();
  reduction.own_elements = Bytes(send) + static_cast<size_t>(rank()) * bytes;
  reduction.destination = recv.data;
  reduction.count = recv.count;
  reduction.dtype = send.dtype;
  reduction.result_dtype = recv.dtype;
  reduction.op = op;
  reduction.accumulate = accumulate;
  return stream.Update(cuda::TreeReduce(reduction, Multiprocessors(stream), stream.handle()));
}

absl::Status NcclCommunicator::AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                         absl::string_view label) {
  CollectiveCall call = MakeCall(buffer.count, buffer.dtype, label);
  call.reduce = op;
  const bool by_library =
      world_->library_reduces() && IsFloatingPoint(buffer.dtype) && op != ReduceOp::kMax;
  return Run(CollectiveOp::kAllReduce, CheckAllReduce(buffer, op), std::move(call), buffer, stream,
             [&](cuda::CudaStream& on) {
               if (buffer.count == 0) return absl::OkStatus();
               if (by_library) return EnqueueLibraryAllReduce(buffer, op, on);
               const bool small = ByteSize(buffer) * size() <= kSmallAllReduceBytes;
               return small ? EnqueueSmallAllReduce(buffer, op, on)
                            : EnqueueAllReduce(buffer, op, on);
             });
}

absl::Status NcclCommunicator::EnqueueSmallAllReduce(const BufferView& buffer, ReduceOp op,
                                                     cuda::CudaStream& stream) {
  const size_t bytes = static_cast<size_t>(ByteSize(buffer));
  ZEROTH_ASSIGN_OR_RETURN(char* const all, Scratch(bytes * static_cast<size_t>(size()), stream));
  ZEROTH_RETURN_IF_ERROR(handle_->Call("ncclAllGather", [&](ncclComm_t communicator) {
    return ncclAllGather(buffer.data, all, static_cast<size_t>(buffer.count), TypeOf(buffer.dtype),
                         communicator, stream.handle());
  }));
  cuda::StridedReduction reduction;
  reduction.others = all;
  reduction.bytes_per_rank = static_cast<int64_t>(bytes);
  reduction.ranks = size();
  reduction.destination = buffer.data;
  reduction.count = buffer.count;
  reduction.dtype = buffer.dtype;
  reduction.result_dtype = buffer.dtype;
  reduction.op = op;
  return stream.Update(cuda::TreeReduce(reduction, Multiprocessors(stream), stream.handle()));
}

// A reduce-scatter of pieces that may differ by one rank's rest, and an all-gather of the results.
absl::Status NcclCommunicator::EnqueueAllReduce(const BufferView& buffer, ReduceOp op,
                                                cuda::CudaStream& stream) {
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
  // Calls send(peer) and receive(peer) for all others, as one.
  const auto exchange = [&](const auto& send, const auto& receive) {
    return handle_->Call("all-to-all", [&](ncclComm_t communicator) {
      Group group;
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        group.Add(send(peer, communicator));
        group.Add(receive(peer, communicator));
      }
      return group.End();
    });
  };
  ZEROTH_RETURN_IF_ERROR(exchange(
      [&](int peer, ncclComm_t communicator) {
        return ncclSend(place(peer), count(peer), type, peer, communicator, stream.handle());
      },
      [&](int peer, ncclComm_t communicator) {
        const size_t at = static_cast<size_t>(peer < rank() ? peer : peer - 1);
        return ncclRecv(others + at * own_bytes, own_count, type, peer, communicator,
                        stream.handle());
      }));
  cuda::StridedReduction reduction;
  reduction.others = others;
  reduction.bytes_per_rank = static_cast<int64_t>(own_bytes);
  reduction.ranks = size();
  reduction.own = rank();
  reduction.own_elements = place(rank());
  reduction.destination = place(rank());
  reduction.count = static_cast<int64_t>(own_count);
  reduction.dtype = buffer.dtype;
  reduction.result_dtype = buffer.dtype;
  reduction.op = op;
  ZEROTH_RETURN_IF_ERROR(
      stream.Update(cuda::TreeReduce(reduction, Multiprocessors(stream), stream.handle())));
  return exchange(
      [&](int peer, ncclComm_t communicator) {
        return ncclSend(place(rank()), own_count, type, peer, communicator, stream.handle());
      },
      [&](int peer, ncclComm_t communicator) {
        return ncclRecv(place(peer), count(peer), type, peer, communicator, stream.handle());
      });
}

// The library adds in the dtype on the wire; the mean is taken here, in float32, because ncclAvg
// multiplies by 1/n rounded to the dtype, which for bf16 is off by 0.2 % at 3 or 7 ranks.
absl::Status NcclCommunicator::EnqueueLibraryReduceScatter(const BufferView& send,
                                                           const BufferView& recv, ReduceOp op,
                                                           bool accumulate,
                                                           cuda::CudaStream& stream) {
  void* sum = recv.data;
  if (accumulate || recv.dtype != send.dtype) {
    const size_t bytes = static_cast<size_t>(recv.count) * SizeOf(send.dtype);
    ZEROTH_ASSIGN_OR_RETURN(sum, Scratch(bytes, stream));
  }
  ZEROTH_RETURN_IF_ERROR(handle_->Call("ncclReduceScatter", [&](ncclComm_t communicator) {
    return ncclReduceScatter(send.data, sum, static_cast<size_t>(recv.count), TypeOf(send.dtype),
                             ncclSum, communicator, stream.handle());
  }));
  if (sum == recv.data && op == ReduceOp::kSum) return absl::OkStatus();
  cuda::StridedReduction finish;
  finish.others = sum;
  finish.destination = recv.data;
  finish.count = recv.count;
  finish.dtype = send.dtype;
  finish.result_dtype = recv.dtype;
  finish.op = op;
  finish.mean_of = size();
  finish.accumulate = accumulate;
  return stream.Update(cuda::TreeReduce(finish, Multiprocessors(stream), stream.handle()));
}

absl::Status NcclCommunicator::EnqueueLibraryAllReduce(const BufferView& buffer, ReduceOp op,
                                                       cuda::CudaStream& stream) {
  ZEROTH_RETURN_IF_ERROR(handle_->Call("ncclAllReduce", [&](ncclComm_t communicator) {
    return ncclAllReduce(buffer.data, buffer.data, static_cast<size_t>(buffer.count),
                         TypeOf(buffer.dtype), ncclSum, communicator, stream.handle());
  }));
  if (op == ReduceOp::kSum) return absl::OkStatus();
  cuda::StridedReduction mean;
  mean.others = buffer.data;
  mean.destination = buffer.data;
  mean.count = buffer.count;
  mean.dtype = buffer.dtype;
  mean.result_dtype = buffer.dtype;
  mean.op = op;
  mean.mean_of = size();
  return stream.Update(cuda::TreeReduce(mean, Multiprocessors(stream), stream.handle()));
}

absl::Status NcclCommunicator::AllToAll(BufferView send, BufferView recv, Stream& stream,
                                        absl::string_view label) {
  return Run(CollectiveOp::kAllToAll, CheckAllToAll(send, recv, size()),
             MakeCall(send.count, send.dtype, label), send, stream,
             [&](cuda::CudaStream& on) -> absl::Status {
               if (send.count == 0) return absl::OkStatus();
               const auto count = static_cast<size_t>(send.count / size());
               const size_t bytes = count * SizeOf(send.dtype);
               return handle_->Call("all-to-all", [&](ncclComm_t communicator) {
                 Group group;
                 for (int peer = 0; peer < size(); ++peer) {
                   const size_t at = static_cast<size_t>(peer) * bytes;
                   group.Add(ncclSend(Bytes(send) + at, count, TypeOf(send.dtype), peer,
                                      communicator, on.handle()));
                   group.Add(ncclRecv(Bytes(recv) + at, count, TypeOf(recv.dtype), peer,
                                      communicator, on.handle()));
                 }
                 return group.End();
               });
             });
}

absl::Status NcclCommunicator::Broadcast(BufferView buffer, int root, Stream& stream,
                                         absl::string_view label) {
  CollectiveCall call = MakeCall(buffer.count, buffer.dtype, label);
  call.root = root;
  return Run(CollectiveOp::kBroadcast, CheckBroadcast(buffer, root, size()), std::move(call),
             buffer, stream, [&](cuda::CudaStream& on) -> absl::Status {
               if (buffer.count == 0) return absl::OkStatus();
               return handle_->Call("ncclBroadcast", [&](ncclComm_t communicator) {
                 return ncclBroadcast(buffer.data, buffer.data, static_cast<size_t>(buffer.count),
                                      TypeOf(buffer.dtype), root, communicator, on.handle());
               });
             });
}

absl::Status NcclCommunicator::Barrier(Stream& stream, absl::string_view label) {
  CollectiveCall call;
  call.label = std::string(label);
  return Run(CollectiveOp::kBarrier, absl::OkStatus(), std::move(call), {}, stream,
             [&](cuda::CudaStream& on) -> absl::Status {
               ZEROTH_ASSIGN_OR_RETURN(char* const bytes, Scratch(static_cast<size_t>(size()), on));
               return handle_->Call("ncclAllGather", [&](ncclComm_t communicator) {
                 return ncclAllGather(bytes + rank(), bytes, 1, ncclUint8, communicator,
                                      on.handle());
               });
             });
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(int color, int key) {
  return SplitInto(color, key, /*for_gathers=*/false);
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::SplitForGathers(int color,
                                                                                int key) {
  return SplitInto(color, key, /*for_gathers=*/true);
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::SplitInto(int color, int key,
                                                                          bool for_gathers) {
  ProcessWorld& processes = world_->processes();
  ZEROTH_ASSIGN_OR_RETURN(const ProcessWorld::Seat seat, processes.Split(seat_.group, color, key));
  bool by_copy_engine = false;
  if (for_gathers && seat.group != kNoGroup) {
    const absl::StatusOr<bool> can = world_->copy_engines().GathersByCopyEngine(seat.world_ranks);
    // Other groups may be well: they wait for these ranks.
    if (!can.ok()) return Fail(can.status(), absl::StrCat("split of ", name()));
    by_copy_engine = *can;
  }
  // The library wants nothing under way on the old communicator.
  if (last_end_ != nullptr) ZEROTH_RETURN_IF_ERROR(last_end_->Synchronize());
  const bool joins = seat.group != kNoGroup;
  const std::shared_ptr<Handle> handle = world_->NewHandle(joins ? processes.NameOf(seat) : name());
  absl::Status created;
  absl::Status asked = handle_->Call("ncclCommSplit", [&](ncclComm_t parent) {
    ncclResult_t result = ncclSuccess;
    created = handle->Start(
        "ncclCommSplit", by_copy_engine, [&](ncclComm_t* communicator, ncclConfig_t* config) {
          result = ncclCommSplit(parent, joins ? static_cast<int>(seat.group) : NCCL_SPLIT_NOCOLOR,
                                 seat.rank, communicator, config);
          return result;
        });
    return result;
  });
  if (asked.ok()) asked = created;
  if (asked.ok()) asked = handle->Await("ncclCommSplit");
  if (asked.ok()) asked = processes.Meet(seat_.group);
  if (!asked.ok()) return Fail(asked, absl::StrCat("split of ", name()));
  std::unique_ptr<Communicator> communicator;
  if (joins) communicator.reset(new NcclCommunicator(world_, seat, handle, by_copy_engine));
  return communicator;
}

std::shared_ptr<MemorySource> NcclCommunicator::memory_source() {
  if (!world_->copy_engines().enabled()) return nullptr;
  return world_->memory();
}

// What goes wrong inside of the library leaves its communicator unusable, so that there is no going
// on without: then all ranks fail.
absl::StatusOr<std::unique_ptr<MemoryRegistration>> NcclCommunicator::Register(
    BufferView memory, absl::string_view label) {
  if (!world_->copy_engines().Registers(seat_.world_ranks)) return nullptr;
  ZEROTH_RETURN_IF_ERROR(status());
  const std::string what = absl::StrCat(kRegisterMemoryOperation, " '", label, "' on ", name());
  const auto bytes = static_cast<size_t>(ByteSize(memory));
  if (bytes == 0 || !world_->memory()->Contains(memory.data, bytes)) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat(bytes,
                                 " bytes that are no memory of this rank's memory_source(); "
                                 "allocate them by Allocator::AllocateForTransport")),
                what);
  }
  ProcessWorld& processes = world_->processes();
  CollectiveCall call = MakeCall(static_cast<int64_t>(bytes), DType::kUInt8, label);
  call.operation = kRegisterMemoryOperation;
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t number, processes.Post(seat_.group, std::move(call)));
  // The library hangs where ranks differ, so they are compared first.
  ZEROTH_RETURN_IF_ERROR(processes.AwaitAgreed(seat_.group, number));
  if (last_end_ != nullptr) ZEROTH_RETURN_IF_ERROR(last_end_->Synchronize());
  const absl::StatusOr<ncclWindow_t> window = handle_->RegisterWindow(memory.data, bytes);
  absl::Status done = window.status();
  if (done.ok()) windows_->Add(memory.data, bytes, *window);
  if (done.ok()) done = processes.Meet(seat_.group);
  if (!done.ok()) {
    return Fail(Annotate(done, "--nccl_copy_engine=off does without registered memory"), what);
  }
  return std::unique_ptr<MemoryRegistration>(new WindowRegistration(windows_, memory.data));
}

std::string NcclCommunicator::GatherNote() const {
  return world_->copy_engines().Note(seat_.world_ranks);
}

void NcclCommunicator::Abort(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  world_->processes().Break(
      Annotate(reason, absl::StrCat("rank ", world_->processes().rank(), " aborted")));
}

}  // namespace zeroth::nccl
