// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_handle.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth::nccl {
namespace {

// Await first spins, because NCCL enqueues most calls within microseconds and the shortest sleep
// takes fifty. Then it sleeps, because making connections takes long.
constexpr absl::Duration kSpin = absl::Microseconds(100);
constexpr auto kFirstPause = std::chrono::microseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(2);

absl::StatusCode CodeOf(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
    case ncclRemoteError:
      return absl::StatusCode::kUnavailable;
    case ncclInvalidArgument:
      return absl::StatusCode::kInvalidArgument;
    case ncclInvalidUsage:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Headers before 2.28 lack these. The plan (copy_engine.h) then avoids them.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
void UseNoMultiprocessors(ncclConfig_t& config) { config.CTAPolicy = NCCL_CTA_POLICY_ZERO; }
ncclResult_t RegisterSymmetric(ncclComm_t communicator, void* data, size_t bytes,
                               ncclWindow_t* window) {
  return ncclCommWindowRegister(communicator, data, bytes, window, NCCL_WIN_COLL_SYMMETRIC);
}
ncclResult_t Deregister(ncclComm_t communicator, ncclWindow_t window) {
  return ncclCommWindowDeregister(communicator, window);
}
#else
void UseNoMultiprocessors(ncclConfig_t&) {}
ncclResult_t RegisterSymmetric(ncclComm_t, void*, size_t, ncclWindow_t*) {
  return ncclInvalidUsage;
}
ncclResult_t Deregister(ncclComm_t, ncclWindow_t) { return ncclInvalidUsage; }
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
constexpr bool kHasSeveralRoots = true;
ncclResult_t InitWithSeveralRoots(ncclComm_t* communicator, int ranks, int rank,
                                  std::vector<ncclUniqueId>& ids, ncclConfig_t* config) {
  return ncclCommInitRankScalable(communicator, ranks, rank, static_cast<int>(ids.size()),
                                  ids.data(), config);
}
#else
constexpr bool kHasSeveralRoots = false;
ncclResult_t InitWithSeveralRoots(ncclComm_t*, int, int, std::vector<ncclUniqueId>&,
                                  ncclConfig_t*) {
  return ncclInvalidUsage;
}
#endif

}  // namespace

absl::Status ToStatus(ncclResult_t result, absl::string_view call, ncclComm_t communicator) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  std::string message = absl::StrCat(call, ": NCCL: ", ncclGetErrorString(result));
  const char* const detail = communicator == nullptr ? nullptr : ncclGetLastError(communicator);
  if (detail != nullptr && *detail != '\0') absl::StrAppend(&message, " (", detail, ")");
  absl::StrAppend(&message, "; NCCL_DEBUG=INFO tells more");
  return absl::Status(CodeOf(result), message);
}

std::vector<int> RootsOf(int ranks, int ranks_per_root) {
  const int roots = kHasSeveralRoots ? (ranks + ranks_per_root - 1) / ranks_per_root : 1;
  std::vector<int> first;
  // NCCL gives the first `ranks % roots` parts one rank more.
  for (int i = 0; i < roots; ++i) first.push_back(i * (ranks / roots) + std::min(i, ranks % roots));
  return first;
}

ncclResult_t InitRank(ncclComm_t* communicator, int ranks, int rank, std::vector<ncclUniqueId>& ids,
                      ncclConfig_t* config) {
  if (ids.size() > 1) return InitWithSeveralRoots(communicator, ranks, rank, ids, config);
  return ncclCommInitRankConfig(communicator, ranks, ids[0], rank, config);
}

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

Handle::~Handle() { Abort(); }

absl::Status Handle::Start(absl::string_view call, bool by_copy_engine,
                           const std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>& start) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // Communicators that share no resources make progress independently.
  config.splitShare = 0;
  if (by_copy_engine) UseNoMultiprocessors(config);
  std::lock_guard<std::mutex> lock(mutex_);
  if (gone_) return absl::AbortedError(absl::StrCat(call, ": aborted"));
  return ToStatus(start(&communicator_, &config), call, nullptr);
}

absl::Status Handle::Call(absl::string_view call,
                          const std::function<ncclResult_t(ncclComm_t)>& make) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (gone_) return absl::AbortedError(absl::StrCat(call, ": aborted"));
    last_call_is_done_ = false;
    ZEROTH_RETURN_IF_ERROR(ToStatus(make(communicator_), call, communicator_));
  }
  // ncclCommSplit is known to return ncclSuccess while it is still in progress (2.28), and
  // ncclSend was (2.23), so only the communicator's own state says that a call is done.
  return Await(call);
}

absl::Status Handle::Await(absl::string_view call) {
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::microseconds pause = kFirstPause;
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (gone_) return absl::AbortedError(absl::StrCat(call, ": aborted"));
      if (communicator_ == nullptr) return absl::OkStatus();
      ncclResult_t state = ncclSuccess;
      ZEROTH_RETURN_IF_ERROR(
          ToStatus(ncclCommGetAsyncError(communicator_, &state), call, communicator_));
      if (state != ncclInProgress) {
        last_call_is_done_ = state == ncclSuccess;
        return ToStatus(state, call, communicator_);
      }
    }
    const absl::Duration waited = absl::FromChrono(std::chrono::steady_clock::now() - begin);
    if (waited > timeout_) {
      return absl::DeadlineExceededError(absl::StrCat(
          call, ": timeout after ", absl::FormatDuration(timeout_), " while NCCL prepares ", name_,
          "; see that the nodes reach each other (NCCL_SOCKET_IFNAME), and what NCCL_DEBUG=INFO "
          "tells"));
    }
    if (waited < kSpin) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, kLongestPause);
  }
}

absl::Status Handle::RegisterWindow(void* data, size_t bytes) {
  Window* window = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [at, fresh] = windows_.emplace(static_cast<char*>(data), Window{bytes});
    ZEROTH_CHECK(fresh);
    window = &at->second;
  }
  ZEROTH_RETURN_IF_ERROR(Call("ncclCommWindowRegister", [&](ncclComm_t communicator) {
    return RegisterSymmetric(communicator, data, bytes, &window->window);
  }));
  std::lock_guard<std::mutex> lock(mutex_);
  window->registered = true;
  ++registered_;
  return absl::OkStatus();
}

void Handle::DeregisterWindow(const void* data) {
  ncclWindow_t window = nullptr;
  bool live = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = windows_.find(static_cast<const char*>(data));
    if (found == windows_.end() || !found->second.registered) return;
    window = found->second.window;
    windows_.erase(found);
    live = !gone_ && !finalizing_;
  }
  // The memory is freed even after an error, which the communicator reports at its next call.
  if (live && window != nullptr) {
    Call("ncclCommWindowDeregister", [&](ncclComm_t communicator) {
      return Deregister(communicator, window);
    }).IgnoreError();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  --registered_;
}

bool Handle::HasWindow(const void* data, size_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = windows_.upper_bound(begin);
  if (after == windows_.begin()) return false;
  --after;
  return after->second.registered &&
         static_cast<size_t>(begin - after->first) + bytes <= after->second.bytes;
}

void Handle::ForgetWindows() {
  std::lock_guard<std::mutex> lock(mutex_);
  registered_ = 0;
}

absl::Status Handle::AsyncError() {
  std::lock_guard<std::mutex> lock(mutex_);
  // Until the last call is done, its caller gets the error, with the call's name.
  if (gone_ || !last_call_is_done_) return absl::OkStatus();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
  return ToStatus(asked == ncclSuccess ? state : asked, name_, communicator_);
}

ncclComm_t Handle::Release() {
  std::lock_guard<std::mutex> lock(mutex_);
  gone_ = true;
  return std::exchange(communicator_, nullptr);
}

void Handle::Abort() {
  // An error is ignored: nothing more can be done.
  if (const ncclComm_t communicator = Release(); communicator != nullptr) {
    static_cast<void>(ncclCommAbort(communicator));
  }
}

bool Handle::TryDestroy() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (gone_) return true;
    if (registered_ > 0 && !finalizing_) return false;
    if (communicator_ != nullptr) {
      if (!finalizing_) {
        finalizing_ = true;
        static_cast<void>(ncclCommFinalize(communicator_));
      }
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
      if (asked == ncclSuccess && state == ncclInProgress) return false;
    }
  }
  // Destroying frees device memory and so may wait for other communicators' work. If the world
  // breaks, that work ends only when they are aborted, which must not wait for this mutex.
  if (const ncclComm_t communicator = Release(); communicator != nullptr) {
    static_cast<void>(ncclCommDestroy(communicator));
  }
  return true;
}

}  // namespace zeroth::nccl
