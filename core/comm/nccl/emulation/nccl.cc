// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The part of NCCL that the back end uses, on the host: ranks are threads or processes of one
// machine, whose bytes go over local sockets. As in the library, calls return at once and are done
// by streams, those of one communicator in the order in which they were made; sends and receives of
// a group progress together; calls that do not match hang, or leave garbage, until the communicator
// is aborted; and a peer that dies is an asynchronous error. Windows may cover memory of
// ncclMemAlloc alone, and gathers into them are at one place on all ranks. Unlike the library it
// lets ranks share a device, and its copy engines reach every rank.

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/nccl/emulation/elements.h"
#include "zeroth/core/comm/nccl/emulation/emulated_nccl.h"
#include "zeroth/core/comm/nccl/emulation/mesh_sockets.h"
#include "zeroth/core/comm/nccl/emulation/registered_memory.h"
#include "zeroth/core/comm/process/messages.h"
#include "zeroth/core/comm/world_state.h"
#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

using zeroth::nccl::emulation::Add;
using zeroth::nccl::emulation::IsAllocated;
using zeroth::nccl::emulation::MeshSockets;
using zeroth::nccl::emulation::Place;
using zeroth::nccl::emulation::ServeMeeting;
using zeroth::nccl::emulation::Size;
using zeroth::nccl::emulation::SocketPlace;
using zeroth::nccl::emulation::Transfer;
using zeroth::nccl::emulation::WindowSet;

namespace {

// The state that a rank's communicators share. A split communicator uses its parent's device.
struct RankDevice {
  std::atomic<int64_t> under_way{0};  // operations that are enqueued and not done
};

// The state that the calls of a communicator share. It outlives the communicator until they are
// done.
struct Shared {
  int ranks = 0;
  int rank = 0;
  std::atomic<bool> aborted{false};
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::shared_ptr<MeshSockets> mesh;  // set before `connected`
  std::atomic<bool> connected{false};
  bool uses_no_multiprocessors = false;
  std::shared_ptr<RankDevice> device = std::make_shared<RankDevice>();
  std::atomic<int64_t> captures{0};  // in graphs that exist
};

// Adds one to `count` until the result is destroyed. Keeps `owner`, which holds `count`, alive.
std::shared_ptr<const void> CountedIn(std::atomic<int64_t>& count,
                                      const std::shared_ptr<const void>& owner) {
  ++count;
  return std::shared_ptr<const void>(owner.get(), [owner, &count](const void*) { --count; });
}

std::atomic<ncclResult_t> fail_next_init{ncclSuccess};
std::atomic<ncclResult_t> fail_next_registration{ncclSuccess};
std::atomic<int64_t> copy_engine_gathers{0};
std::atomic<int64_t> groups{0};
std::atomic<int64_t> several_roots{0};
std::atomic<int64_t> unaligned_transfers{0};
std::atomic<bool> copy_engines_wait{false};
std::atomic<ncclResult_t> transfer_failure{ncclRemoteError};

// See TakeBytesSent.
class BytesSent {
 public:
  void Add(int sender, int receiver, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    bytes_[{sender, receiver}] += static_cast<int64_t>(bytes);
  }
  std::map<std::pair<int, int>, int64_t> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(bytes_, {});
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, int64_t> bytes_;
};
BytesSent bytes_sent;

struct UniqueId {
  uint32_t magic = 0;
  SocketPlace meeting = 0;
};
constexpr uint32_t kIdMagic = 0x454d4e43;

// Work for a stream.
struct Operation {
  std::shared_ptr<Shared> shared;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;
  std::function<void()> finish;  // with all that was received
  bool by_copy_engine = false;
};

thread_local int group_depth = 0;
thread_local std::vector<Operation> group;

void Run(const Operation& operation, uint64_t number) {
  const absl::Status done = operation.shared->mesh->Run(number, operation.transfers);
  if (done.ok()) {
    if (operation.by_copy_engine) ++copy_engine_gathers;
    if (operation.finish != nullptr) operation.finish();
  } else if (operation.by_copy_engine && copy_engines_wait) {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  } else if (!operation.shared->aborted) {
    ncclResult_t expected = ncclSuccess;
    operation.shared->state.compare_exchange_strong(expected, transfer_failure);
  }
}

// As in NCCL, launches of a graph and other calls run in the order of the host.
ncclResult_t Enqueue(Operation operation) {
  const cudaStream_t stream = operation.stream;
  const auto shared = std::make_shared<const Operation>(std::move(operation));
  // A call that is not captured is made at once, and then destroyed.
  const std::shared_ptr<const void> captured = CountedIn(shared->shared->captures, shared->shared);
  const auto prepare = [shared, captured]() -> std::function<void()> {
    const uint64_t number = shared->shared->mesh->TakeNumber();
    const std::shared_ptr<RankDevice>& device = shared->shared->device;
    return [shared, number, under_way = CountedIn(device->under_way, device)] {
      Run(*shared, number);
    };
  };
  return zeroth::cuda::emulation::EnqueuePreparedOnEmulatedStream(stream, prepare).ok()
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

}  // namespace

struct ncclComm {
  ncclComm() = default;
  // Configured by `config`, which may be nullptr.
  explicit ncclComm(const ncclConfig_t* config)
      : blocking(config == nullptr || config->blocking != 0) {
    shared->uses_no_multiprocessors =
        config != nullptr && config->CTAPolicy == NCCL_CTA_POLICY_ZERO;
  }

  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  const bool blocking = true;
  WindowSet windows;
  std::thread background;

  ~ncclComm() {
    if (background.joinable()) background.join();
  }
  // Runs `work` on a separate thread; its result becomes the state.
  void Start(const std::function<ncclResult_t()>& work) {
    if (background.joinable()) background.join();
    shared->state = ncclInProgress;
    background = std::thread([state = shared, work] {
      const ncclResult_t result = work();
      state->state = result;
    });
  }
};

namespace {

ncclResult_t Check(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclInvalidArgument;
  const ncclResult_t state = communicator->shared->state;
  // The library refuses calls while the last one is in progress.
  return state == ncclInProgress ? ncclInvalidUsage : state;
}

// Communicators to free at the end of a group.
thread_local std::vector<ncclComm_t> group_aborts;

// This stops nothing that runs on the device.
void Reclaim(ncclComm_t communicator) {
  const std::shared_ptr<Shared> shared = communicator->shared;
  if (communicator->background.joinable()) communicator->background.join();
  // The communicator may have been aborted while it connected.
  if (shared->aborted && shared->connected) shared->mesh->Abort();
  while (shared->captures > 0 || shared->device->under_way > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  delete communicator;
}

ncclResult_t Submit(Operation operation, bool may_merge) {
  if (group_depth == 0) return Enqueue(std::move(operation));
  // Sends and receives of one communicator and stream are one operation.
  for (Operation& earlier : group) {
    if (may_merge && earlier.finish == nullptr && earlier.shared == operation.shared &&
        earlier.stream == operation.stream) {
      earlier.transfers.insert(earlier.transfers.end(), operation.transfers.begin(),
                               operation.transfers.end());
      return ncclSuccess;
    }
  }
  group.push_back(std::move(operation));
  return ncclSuccess;
}

// All-to-all: each peer receives `piece_of(peer)` of `send`, and its data arrive at
// `place_of(peer)`.
template <typename PieceOf, typename PlaceOf>
std::vector<Transfer> Exchange(const Shared& shared, size_t bytes, PieceOf piece_of,
                               PlaceOf place_of) {
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < shared.ranks; ++peer) {
    if (peer == shared.rank) continue;
    transfers.push_back({true, peer, piece_of(peer), bytes});
    transfers.push_back({false, peer, place_of(peer), bytes});
  }
  return transfers;
}

char* Mutable(const void* data) { return const_cast<char*>(static_cast<const char*>(data)); }

// The places of a gather's buffers, which all ranks exchange: a rank that accesses another's window
// assumes its own offset there. Keeps the windows in use.
class Places {
 public:
  Places(const Shared& shared, const Place& from, const Place& into)
      : all_(static_cast<size_t>(shared.ranks)), rank_(static_cast<size_t>(shared.rank)) {
    all_[rank_] = {kMagic, Number(into), into.offset};
    for (const Place& place : {from, into}) {
      if (place.window == nullptr) continue;
      ++place.window->uses;
      used_.push_back(place.window);
    }
  }
  ~Places() {
    for (const auto& window : used_) --window->uses;
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  std::vector<Transfer> Transfers(const Shared& shared) {
    const auto at = [&](int rank) {
      return reinterpret_cast<char*>(&all_[static_cast<size_t>(rank)]);
    };
    return Exchange(
        shared, sizeof(PlaceMessage), [&](int) { return at(shared.rank); }, at);
  }
  // True if all ranks at this call pass the same window and offset. Ignores ranks elsewhere.
  bool Match() const {
    return std::all_of(all_.begin(), all_.end(), [&](const PlaceMessage& message) {
      const PlaceMessage& own = all_[rank_];
      return message.magic != kMagic ||
             (message.window == own.window && message.offset == own.offset);
    });
  }

 private:
  static constexpr uint64_t kMagic = 0x5a65726f57696e64;
  struct PlaceMessage {
    uint64_t magic = 0;
    uint64_t window = 0;  // 0: none
    uint64_t offset = 0;
  };
  static uint64_t Number(const Place& place) {
    return place.window == nullptr ? 0 : place.window->number;
  }

  std::vector<PlaceMessage> all_;
  const size_t rank_;
  std::vector<std::shared_ptr<ncclWindow_vidmem>> used_;
};

// Exchanges the sizes of the ranks' windows.
ncclResult_t MeetAtWindow(const Shared& shared, uint64_t bytes) {
  std::vector<uint64_t> sizes(static_cast<size_t>(shared.ranks), bytes);
  const auto size_of = [&](int rank) {
    return reinterpret_cast<char*>(&sizes[static_cast<size_t>(rank)]);
  };
  const auto exchange = Exchange(
      shared, sizeof(bytes), [&](int) { return size_of(shared.rank); }, size_of);
  if (!shared.mesh->Run(shared.mesh->TakeNumber(), exchange).ok()) return ncclRemoteError;
  const bool same =
      std::all_of(sizes.begin(), sizes.end(), [&](uint64_t size) { return size == bytes; });
  return same ? ncclSuccess : ncclInvalidUsage;
}

// Sums piece piece(rank) of all ranks' send buffers, where `rank` is this rank, into `to`.
ncclResult_t Reduce(const void* send, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    ncclComm_t communicator, cudaStream_t stream,
                    const std::function<size_t(int)>& piece) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  char none = 0;
  if (op != ncclSum || !Add(type, &none, &none, 0)) return ncclInvalidArgument;
  const std::shared_ptr<Shared>& shared = communicator->shared;
  const size_t bytes = count * Size(type);
  const auto received =
      std::make_shared<std::vector<char>>(bytes * static_cast<size_t>(shared->ranks));
  Operation operation;
  operation.shared = shared;
  operation.stream = stream;
  operation.transfers = Exchange(
      *shared, bytes, [&](int peer) { return Mutable(send) + piece(peer) * bytes; },
      [&](int peer) { return received->data() + static_cast<size_t>(peer) * bytes; });
  const char* const own = Mutable(send) + piece(shared->rank) * bytes;
  operation.finish = [=, ranks = shared->ranks, rank = shared->rank] {
    std::memcpy(received->data() + static_cast<size_t>(rank) * bytes, own, bytes);
    for (int peer = 1; peer < ranks; ++peer) {
      static_cast<void>(
          Add(type, received->data(), received->data() + static_cast<size_t>(peer) * bytes, count));
    }
    std::memcpy(to, received->data(), bytes);
  };
  return Submit(std::move(operation), /*may_merge=*/false);
}

ncclResult_t PointToPoint(bool is_send, const void* data, size_t count, ncclDataType_t type,
                          int peer, ncclComm_t communicator, cudaStream_t stream) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  if (peer < 0 || peer >= communicator->shared->ranks) return ncclInvalidArgument;
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) ++unaligned_transfers;
  if (is_send) bytes_sent.Add(communicator->shared->rank, peer, count * Size(type));
  Operation operation;
  operation.shared = communicator->shared;
  operation.stream = stream;
  operation.transfers.push_back({is_send, peer, Mutable(data), count * Size(type)});
  return Submit(std::move(operation), /*may_merge=*/true);
}

// Fails if `shared` or `parent`, from which it is split, is aborted meanwhile.
ncclResult_t Connect(const std::shared_ptr<Shared>& shared, SocketPlace meeting,
                     const Shared* parent = nullptr) {
  if (const ncclResult_t injected = fail_next_init.exchange(ncclSuccess); injected != ncclSuccess) {
    return injected;
  }
  auto mesh = MeshSockets::Connect(meeting, shared->ranks, shared->rank, [&] {
    return shared->aborted || (parent != nullptr && parent->aborted);
  });
  if (!mesh.ok()) return ncclSystemError;
  shared->mesh = *std::move(mesh);
  shared->connected = true;
  return ncclSuccess;
}

// Runs on the parent's connections: all ranks exchange their colors and keys, and the first rank of
// each new group tells the others where to meet.
ncclResult_t Split(const std::shared_ptr<Shared>& parent, const std::shared_ptr<Shared>& child,
                   int color, int key) {
  const auto size = static_cast<size_t>(parent->ranks);
  std::vector<zeroth::SplitRequest> requests(size);
  const auto own = static_cast<size_t>(parent->rank);
  requests[own] = {color, key};
  const auto request = [&](int peer) {
    return reinterpret_cast<char*>(&requests[static_cast<size_t>(peer)]);
  };
  const auto exchange = Exchange(
      *parent, sizeof(zeroth::SplitRequest), [&](int) { return request(parent->rank); }, request);
  if (!parent->mesh->Run(parent->mesh->TakeNumber(), exchange).ok()) return ncclRemoteError;
  std::vector<int> members;
  for (const std::vector<int>& ranks : zeroth::SplitGroups(requests)) {
    if (std::find(ranks.begin(), ranks.end(), parent->rank) != ranks.end()) members = ranks;
  }
  SocketPlace place = 0;
  std::vector<Transfer> transfers;
  const bool leads = !members.empty() && members.front() == parent->rank;
  if (leads) {
    const auto meeting = ServeMeeting();
    if (!meeting.ok()) return ncclSystemError;
    place = *meeting;
    for (int member : members) {
      if (member == parent->rank) continue;
      transfers.push_back({true, member, reinterpret_cast<char*>(&place), sizeof(place)});
    }
  } else if (!members.empty()) {
    transfers.push_back({false, members.front(), reinterpret_cast<char*>(&place), sizeof(place)});
  }
  if (!parent->mesh->Run(parent->mesh->TakeNumber(), transfers).ok()) return ncclRemoteError;
  if (child == nullptr) return ncclSuccess;
  child->ranks = static_cast<int>(members.size());
  child->rank =
      static_cast<int>(std::find(members.begin(), members.end(), parent->rank) - members.begin());
  return Connect(child, place, parent.get());
}

void Await(ncclComm_t communicator) {
  if (communicator->background.joinable()) communicator->background.join();
}

// Starts `work` for `communicator`, and waits for it if `blocking`.
ncclResult_t StartOrDo(ncclComm_t communicator, bool blocking,
                       const std::function<ncclResult_t()>& work) {
  communicator->Start(work);
  if (!blocking) return ncclInProgress;
  Await(communicator);
  return communicator->shared->state;
}

}  // namespace

namespace zeroth::nccl::emulation {

void FailNextInit(ncclResult_t result) { fail_next_init = result; }
void FailNextTransfer(ncclResult_t result) {
  transfer_failure = result;
  fail_next_transfer = true;
}
void FailNextRegistration(ncclResult_t result) { fail_next_registration = result; }
void LeaveCopyEnginesWaiting() { copy_engines_wait = true; }
int64_t CopyEngineGathers() { return copy_engine_gathers; }
int64_t Groups() { return groups; }
int64_t StartsWithSeveralRoots() { return several_roots; }
std::map<std::pair<int, int>, int64_t> TakeBytesSent() { return bytes_sent.Take(); }
int64_t UnalignedTransfers() { return unaligned_transfers; }
void StallTransfers(bool on) { stall_transfers = on; }

}  // namespace zeroth::nccl::emulation

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const absl::StatusOr<SocketPlace> meeting = ServeMeeting();
  if (!meeting.ok()) return ncclSystemError;
  const UniqueId content = {kIdMagic, *meeting};
  *id = {};
  std::memcpy(id->internal, &content, sizeof(content));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  UniqueId content;
  std::memcpy(&content, id.internal, sizeof(content));
  if (content.magic != kIdMagic || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  *communicator = new ncclComm(config);
  const std::shared_ptr<Shared> shared = (*communicator)->shared;
  shared->ranks = ranks;
  shared->rank = rank;
  return StartOrDo(*communicator, (*communicator)->blocking,
                   [shared, meeting = content.meeting] { return Connect(shared, meeting); });
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* communicator, int ranks, int rank, int roots,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  if (roots < 1 || roots > ranks) return ncclInvalidArgument;
  for (int root = 0; root < roots; ++root) {
    UniqueId content;
    std::memcpy(&content, ids[root].internal, sizeof(content));
    if (content.magic != kIdMagic) return ncclInvalidArgument;
  }
  several_roots += roots > 1 ? 1 : 0;
  // One meeting is enough for the few ranks of a test.
  return ncclCommInitRankConfig(communicator, ranks, ids[0], rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* communicator,
                           ncclConfig_t* config) {
  if (const ncclResult_t ready = Check(parent); ready != ncclSuccess) return ready;
  *communicator = NCCL_COMM_NULL;
  const ncclComm_t made = color == NCCL_SPLIT_NOCOLOR ? NCCL_COMM_NULL : new ncclComm(config);
  const std::shared_ptr<Shared> shared = parent->shared;
  const std::shared_ptr<Shared> child = made == nullptr ? nullptr : made->shared;
  if (child != nullptr) child->device = shared->device;
  const ncclResult_t started = StartOrDo(parent, config == nullptr || config->blocking != 0, [=] {
    const ncclResult_t result = Split(shared, child, color, key);
    if (child != nullptr) child->state = result;
    *communicator = made;
    return result;
  });
  // Like NCCL 2.28, returns ncclSuccess while the split is in progress, which only the parent's
  // state shows, and stores the new communicator at the end.
  return started == ncclInProgress ? ncclSuccess : started;
}

ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  return zeroth::nccl::emulation::AllocateMemory(data, bytes);
}

ncclResult_t ncclMemFree(void* data) { return zeroth::nccl::emulation::FreeMemory(data); }

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* data, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (flags != NCCL_WIN_COLL_SYMMETRIC || bytes == 0 ||
      address % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return ncclInvalidArgument;
  }
  const std::shared_ptr<Shared> shared = communicator->shared;
  return StartOrDo(communicator, communicator->blocking, [=] {
    const ncclResult_t injected = fail_next_registration.exchange(ncclSuccess);
    if (injected != ncclSuccess) return injected;
    // Memory from elsewhere has no handle that others could map.
    if (!IsAllocated(data, bytes)) return ncclUnhandledCudaError;
    const ncclResult_t met = MeetAtWindow(*shared, bytes);
    if (met == ncclSuccess) *window = communicator->windows.Add(data, bytes);
    return met;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  return communicator->windows.Remove(window) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  const std::shared_ptr<Shared> shared = communicator->shared;
  communicator->Start([shared] {
    while (!shared->aborted && !shared->mesh->IsIdle()) std::this_thread::yield();
    return ncclSuccess;
  });
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  Reclaim(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->shared->aborted = true;
  // While it connects there is no mesh to abort, and the connecting thread checks the flag itself.
  if (communicator->shared->connected) communicator->shared->mesh->Abort();
  if (group_depth > 0) {
    group_aborts.push_back(communicator);
    return ncclSuccess;
  }
  Reclaim(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  *state = communicator->shared->state;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  if (!group.empty()) ++groups;
  ncclResult_t result = ncclSuccess;
  for (Operation& operation : std::exchange(group, {})) {
    if (result == ncclSuccess) result = Enqueue(std::move(operation));
  }
  for (ncclComm_t communicator : std::exchange(group_aborts, {})) Reclaim(communicator);
  return result;
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  const std::shared_ptr<Shared>& shared = communicator->shared;
  const size_t bytes = count * Size(type);
  char* const to = static_cast<char*>(receive);
  char* const own = to + static_cast<size_t>(shared->rank) * bytes;
  const Place from = communicator->windows.Find(send, bytes);
  const Place into =
      communicator->windows.Find(receive, bytes * static_cast<size_t>(shared->ranks));
  const auto places = std::make_shared<Places>(*shared, from, into);
  Operation operation;
  operation.by_copy_engine =
      shared->uses_no_multiprocessors && from.window != nullptr && into.window != nullptr;
  operation.shared = shared;
  operation.stream = stream;
  operation.transfers = places->Transfers(*shared);
  const std::vector<Transfer> data = Exchange(
      *shared, bytes, [&](int) { return Mutable(send); },
      [&](int peer) { return to + static_cast<size_t>(peer) * bytes; });
  operation.transfers.insert(operation.transfers.end(), data.begin(), data.end());
  operation.finish = [own, send, bytes, shared, places] {
    if (own != send) std::memcpy(own, send, bytes);
    if (!places->Match()) shared->state = ncclInvalidUsage;
  };
  return Submit(std::move(operation), /*may_merge=*/false);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return Reduce(send, receive, count, type, op, communicator, stream,
                [](int peer) { return static_cast<size_t>(peer); });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return Reduce(send, receive, count, type, op, communicator, stream,
                [](int) { return size_t{0}; });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  if (const ncclResult_t ready = Check(communicator); ready != ncclSuccess) return ready;
  const std::shared_ptr<Shared>& shared = communicator->shared;
  const size_t bytes = count * Size(type);
  Operation operation;
  operation.shared = shared;
  operation.stream = stream;
  if (shared->rank != root) {
    operation.transfers.push_back({false, root, static_cast<char*>(receive), bytes});
  } else {
    for (int peer = 0; peer < shared->ranks; ++peer) {
      if (peer != root) operation.transfers.push_back({true, peer, Mutable(send), bytes});
    }
  }
  operation.finish = [is_root = shared->rank == root, send, receive, bytes] {
    if (is_root && receive != send) std::memcpy(receive, send, bytes);
  };
  return Submit(std::move(operation), /*may_merge=*/false);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return PointToPoint(/*is_send=*/true, data, count, type, peer, communicator, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return PointToPoint(/*is_send=*/false, data, count, type, peer, communicator, stream);
}

}  // extern "C"
