// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::nccl {
namespace {

// The condition that all ranks of a group have posted matching calls. If the world breaks after
// that, the calls end without moving their data, so Await returns the world's error.
class Agreement final : public cuda::HostCondition {
 public:
  Agreement(std::shared_ptr<ProcessWorld> world, uint32_t group)
      : world_(std::move(world)), group_(group) {}
  absl::Status Await(uint64_t count) override {
    ZEROTH_RETURN_IF_ERROR(world_->AwaitAgreed(group_, count));
    return world_->StatusAfterHooks();
  }

 private:
  const std::shared_ptr<ProcessWorld> world_;
  const uint32_t group_;
};

// A window that a handle has registered at `data`; deregistered by the destructor. It shares the
// handle with the communicator, because either may be destroyed first.
class WindowRegistration final : public MemoryRegistration {
 public:
  WindowRegistration(std::shared_ptr<Handle> handle, const void* data)
      : handle_(std::move(handle)), data_(data) {}
  ~WindowRegistration() override { handle_->DeregisterWindow(data_); }
  WindowRegistration(const WindowRegistration&) = delete;
  WindowRegistration& operator=(const WindowRegistration&) = delete;

 private:
  const std::shared_ptr<Handle> handle_;
  const void* const data_;
};

}  // namespace

void RecordedCalls::Add(CollectiveOp op, int64_t bytes, const CollectiveCall& call) {
  calls_.push_back({op, bytes, call});
}

absl::Status RecordedCalls::BeforePlay(cuda::CudaStream& stream) {
  ProcessWorld& processes = shared_.world->processes();
  ZEROTH_RETURN_IF_ERROR(processes.status());
  const CollectiveCall& first = calls_.front().call;
  play_ = {};
  play_.operation = kPlayOperation;
  play_.label =
      absl::StrCat(first.operation, " ", first.label, " and ", calls_.size() - 1, " more");
  ZEROTH_ASSIGN_OR_RETURN(number_, processes.Post(shared_.group, play_));
  play_.index = number_ - 1;
  for (const Call& call : calls_) shared_.stats->Add(call.op, call.bytes, call.call.label);
  const LastCall& last = *shared_.last_call;
  absl::Status ordered;
  if (last.stream != &stream && last.end != nullptr) ordered = stream.Wait(last.end);
  absl::StatusOr<std::shared_ptr<Event>> begin = stream.Record();
  ordered.Update(begin.status());
  // The other ranks wait for this one's play.
  if (!ordered.ok()) return processes.Fail(ordered, play_.ToString());
  begin_ = *std::move(begin);
  // Required before the end is recorded, so that waiting for the end includes the agreement.
  stream.Require(shared_.agreement, number_);
  return absl::OkStatus();
}

absl::Status RecordedCalls::AfterPlay(cuda::CudaStream& stream, const std::shared_ptr<Event>& end) {
  shared_.in_flight->Add(play_, number_, std::exchange(begin_, nullptr), end);
  *shared_.last_call = {&stream, end};
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::CreateWorld(
    std::shared_ptr<World> world, int ranks_per_root) {
  ProcessWorld& processes = world->processes();
  const ProcessWorld::Seat seat = processes.WorldSeat();
  const int ranks = static_cast<int>(seat.world_ranks.size());
  const std::vector<int> roots = RootsOf(ranks, ranks_per_root);
  ncclUniqueId id = {};
  absl::string_view own;  // only roots have one
  if (std::count(roots.begin(), roots.end(), seat.rank) > 0) {
    ZEROTH_RETURN_IF_ERROR(ToStatus(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr));
    own = absl::string_view(id.internal, sizeof(id.internal));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> given, processes.Meet(seat.group, own));
  std::vector<ncclUniqueId> ids;
  for (const int root : roots) {
    const std::string& bytes = given[static_cast<size_t>(root)];
    if (bytes.size() != sizeof(id.internal)) {
      return absl::InternalError(absl::StrCat("rank ", root, " gave an NCCL id of ", bytes.size(),
                                              " bytes, expected ", sizeof(id.internal),
                                              "; start the same program on all ranks"));
    }
    std::memcpy(ids.emplace_back().internal, bytes.data(), bytes.size());
  }
  const std::shared_ptr<Handle> handle = world->NewHandle(processes.NameOf(seat));
  const char* const call = ids.size() == 1 ? "ncclCommInitRankConfig" : "ncclCommInitRankScalable";
  ZEROTH_RETURN_IF_ERROR(handle->Start(
      call, /*by_copy_engine=*/false, [&](ncclComm_t* communicator, ncclConfig_t* config) {
        return InitRank(communicator, ranks, seat.rank, ids, config);
      }));
  ZEROTH_RETURN_IF_ERROR(handle->Await(call));
  ZEROTH_RETURN_IF_ERROR(processes.Meet(seat.group).status());
  return std::unique_ptr<NcclCommunicator>(
      new NcclCommunicator(std::move(world), seat, handle, /*by_copy_engine=*/false));
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<World> world, ProcessWorld::Seat seat,
                                   std::shared_ptr<Handle> handle, bool by_copy_engine)
    : world_(std::move(world)),
      seat_(std::move(seat)),
      handle_(std::move(handle)),
      in_flight_(world_->NewCallsInFlight(seat_.group, handle_, by_copy_engine)),
      agreement_(std::make_shared<Agreement>(world_->shared_processes(), seat_.group)),
      name_(world_->processes().NameOf(seat_)),
      grid_{rank(), size(), world_->processes().RanksPerNodeOf(seat_)},
      by_copy_engine_(by_copy_engine) {}

NcclCommunicator::~NcclCommunicator() {
  world_->processes().Leave(seat_.group);
  in_flight_->Keep(std::move(scratch_));
  world_->Retire(in_flight_);
}

absl::Status NcclCommunicator::CheckStream(Stream& stream) const {
  const auto* const cuda_stream = dynamic_cast<const cuda::CudaStream*>(&stream);
  if (cuda_stream != nullptr && stream.device().index() == world_->device()) {
    return absl::OkStatus();
  }
  return InvalidArgument("the stream '", stream.name(), "' belongs to ", stream.device().name(),
                         ", expected one of cuda:", world_->device(),
                         ", which this rank's NCCL communicators are made for");
}

RecordedCalls& NcclCommunicator::CallsIn(const std::shared_ptr<cuda::Playback>& playback) {
  if (recorded_in_.lock() != playback) {
    recorded_ = std::make_shared<RecordedCalls>(RecordedCalls::Shared{
        world_, seat_.group, in_flight_, agreement_, last_call_, shared_stats()});
    recorded_in_ = playback;
    last_recorded_ = {};
    playback->AddObserver(recorded_);
  }
  return *recorded_;
}

absl::Status NcclCommunicator::Enqueue(absl::Span<Collective> collectives,
                                       const absl::Status& checked, Stream& stream) {
  ProcessWorld& processes = world_->processes();
  const CollectiveCall& call = collectives.back().call;
  ZEROTH_RETURN_IF_ERROR(status());
  const auto fail = [&](const absl::Status& error) {
    return processes.Fail(error, Describe(call));
  };
  if (!checked.ok()) return fail(checked);
  if (absl::Status wrong = CheckStream(stream); !wrong.ok()) return fail(wrong);
  cuda::CudaStream& cuda_stream = cuda::CudaStream::From(stream);
  const std::shared_ptr<cuda::Playback> playback = cuda_stream.playback();
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t number,
                          processes.PostAll(seat_.group, CallsOf(collectives)));
  uint64_t index = number - collectives.size();  // `number` is that of the last call, from 1
  for (Collective& collective : collectives) {
    collective.call.index = index++;
    if (playback == nullptr) {
      Count(collective);
    } else {
      CallsIn(playback).Add(collective.op, TrafficOf(collective), collective.call);
    }
  }
  LastCall& last = playback == nullptr ? *last_call_ : last_recorded_;
  if (last.stream != &stream && last.end != nullptr) {
    if (absl::Status waited = stream.Wait(last.end); !waited.ok()) return fail(waited);
  }
  const absl::StatusOr<std::shared_ptr<Event>> begin = stream.Record();
  if (!begin.ok()) return fail(begin.status());
  absl::Status moved = collectives.size() == 1 ? Move(collectives[0], cuda_stream)
                       : collectives[0].op == CollectiveOp::kAllGather
                           ? GatherTogether(collectives, cuda_stream)
                           : ScatterTogether(collectives, cuda_stream);
  if (!moved.ok()) return fail(moved);
  cuda_stream.Require(agreement_, number);
  absl::StatusOr<std::shared_ptr<Event>> end = stream.Record();
  if (!end.ok()) return fail(end.status());
  last = {&stream, *end};
  // Recorded calls run when the recording is played, and each play is watched as a whole.
  if (playback == nullptr) in_flight_->Add(call, number, *begin, *std::move(end));
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Move(const Collective& collective, cuda::CudaStream& stream) {
  const BufferView& recv = collective.recv;
  if (collective.op != CollectiveOp::kBarrier && collective.call.count == 0) {
    return absl::OkStatus();
  }
  switch (collective.op) {
    case CollectiveOp::kAllGather:
      return Gather(collective, stream);
    case CollectiveOp::kReduceScatter:
      return ScatterTogether({&collective, 1}, stream);
    case CollectiveOp::kAllReduce:
      return LibraryReduces(collective) ? LibraryReduce({&collective, 1}, stream)
                                        : AllReduceInTree(collective, stream);
    case CollectiveOp::kAllToAll: {
      std::vector<RankMessage> messages;
      for (int peer = 0; peer < size(); ++peer) {
        messages.push_back(
            SendTo(peer, PieceOf(collective.send, collective.counts.send, peer, size())));
        messages.push_back(
            ReceiveFrom(peer, PieceOf(collective.recv, collective.counts.recv, peer, size())));
      }
      return Exchange(messages, stream);
    }
    case CollectiveOp::kBroadcast:
      return handle_->Call("ncclBroadcast", [&](ncclComm_t communicator) {
        return ncclBroadcast(recv.data, recv.data, static_cast<size_t>(recv.count),
                             TypeOf(recv.dtype), *collective.call.root, communicator,
                             stream.handle());
      });
    case CollectiveOp::kBarrier:
      break;
  }
  ZEROTH_ASSIGN_OR_RETURN(char* const bytes, Scratch(static_cast<size_t>(size()), stream));
  return GatherFrom(bytes + rank(), bytes, 1, DType::kUInt8, stream);
}

absl::StatusOr<char*> NcclCommunicator::Scratch(size_t bytes, cuda::CudaStream& stream) {
  if (bytes == 0) return nullptr;
  if (scratch_ == nullptr || scratch_->bytes() < bytes) {
    in_flight_->Keep(std::exchange(scratch_, nullptr));
    Device& device = stream.device();
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                            device.allocator().Allocate(bytes, MemoryCategory::kCommunication));
    // The compute stream may still use the memory for what it held before.
    if (!stream.is_compute()) {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Event> free, device.compute_stream().Record());
      ZEROTH_RETURN_IF_ERROR(stream.Wait(free));
    }
    scratch_ = std::move(buffer);
  }
  return static_cast<char*>(scratch_->data());
}

absl::Status NcclCommunicator::InGroup(absl::string_view name, GroupedCalls calls) {
  return handle_->Call(name, [&](ncclComm_t communicator) {
    // Has the first error of the calls. The group is ended even after an error.
    ncclResult_t result = ncclGroupStart();
    calls(communicator, [&](ncclResult_t called) {
      if (result == ncclSuccess && called != ncclInProgress) result = called;
    });
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  });
}

absl::Status NcclCommunicator::Exchange(absl::Span<const RankMessage> messages,
                                        cuda::CudaStream& stream) {
  if (messages.empty()) return absl::OkStatus();
  return InGroup("exchange", [&](ncclComm_t communicator, auto note) {
    for (const auto& [is_send, peer, data] : messages) {
      if (data.count == 0) continue;
      const auto count = static_cast<size_t>(data.count);
      const ncclDataType_t type = TypeOf(data.dtype);
      note(is_send ? ncclSend(data.data, count, type, peer, communicator, stream.handle())
                   : ncclRecv(data.data, count, type, peer, communicator, stream.handle()));
    }
  });
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::SplitBy(int color, int key,
                                                                        bool for_gathers) {
  ProcessWorld& processes = world_->processes();
  ZEROTH_ASSIGN_OR_RETURN(const ProcessWorld::Seat seat, processes.Split(seat_.group, color, key));
  bool by_copy_engine = false;
  if (for_gathers && seat.group != kNoGroup) {
    const absl::StatusOr<bool> can = world_->copy_engines().GathersByCopyEngine(seat.world_ranks);
    // Fail all ranks: other groups may succeed, and would wait for this one.
    if (!can.ok()) return processes.Fail(can.status(), absl::StrCat("split of ", name()));
    by_copy_engine = *can;
  }
  // NCCL requires that the old communicator has no unfinished calls.
  if (last_call_->end != nullptr) ZEROTH_RETURN_IF_ERROR(last_call_->end->Synchronize());
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
  if (!asked.ok()) handle_->Keep(handle);
  if (asked.ok()) asked = created;
  if (asked.ok()) asked = handle->Await("ncclCommSplit");
  if (asked.ok()) asked = processes.Meet(seat_.group).status();
  if (!asked.ok()) return processes.Fail(asked, absl::StrCat("split of ", name()));
  std::unique_ptr<Communicator> communicator;
  if (joins) communicator.reset(new NcclCommunicator(world_, seat, handle, by_copy_engine));
  return communicator;
}

std::shared_ptr<MemorySource> NcclCommunicator::memory_source() {
  if (!world_->copy_engines().enabled()) return nullptr;
  return world_->memory();
}

// An error inside NCCL leaves its communicator unusable, so it fails all ranks.
absl::StatusOr<std::unique_ptr<MemoryRegistration>> NcclCommunicator::Register(
    BufferView memory, absl::string_view label) {
  if (!world_->copy_engines().Registers(seat_.world_ranks)) return nullptr;
  ZEROTH_RETURN_IF_ERROR(status());
  ProcessWorld& processes = world_->processes();
  const std::string what = absl::StrCat(kRegisterMemoryOperation, " '", label, "' on ", name());
  const auto bytes = static_cast<size_t>(ByteSize(memory));
  if (bytes == 0 || !world_->memory()->Contains(memory.data, bytes)) {
    return processes.Fail(InvalidArgument(bytes,
                                          " bytes outside this rank's memory_source(); "
                                          "allocate them by Allocator::AllocateForTransport"),
                          what);
  }
  CollectiveCall call;
  call.operation = kRegisterMemoryOperation;
  call.count = static_cast<int64_t>(bytes);
  call.dtype = DType::kUInt8;
  call.label = std::string(label);
  ZEROTH_ASSIGN_OR_RETURN(const uint64_t number,
                          processes.Post(seat_.group, std::move(call), /*awaits=*/true));
  // NCCL hangs if ranks differ, so the ranks compare their calls first.
  ZEROTH_RETURN_IF_ERROR(processes.AwaitAgreed(seat_.group, number));
  if (last_call_->end != nullptr) ZEROTH_RETURN_IF_ERROR(last_call_->end->Synchronize());
  absl::Status done = handle_->RegisterWindow(memory.data, bytes);
  if (done.ok()) done = processes.Meet(seat_.group).status();
  if (!done.ok()) {
    return processes.Fail(Annotate(done, "--nccl_copy_engine=off does without registered memory"),
                          what);
  }
  return std::unique_ptr<MemoryRegistration>(new WindowRegistration(handle_, memory.data));
}

std::string NcclCommunicator::GatherNote() const {
  return world_->copy_engines().Note(seat_.world_ranks);
}

}  // namespace zeroth::nccl
