// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_handle.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::nccl {
namespace {

// Most calls are enqueued at once, and making connections takes long.
constexpr auto kFirstPause = std::chrono::microseconds(2);
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

}  // namespace

absl::Status ToStatus(ncclResult_t result, absl::string_view call, ncclComm_t communicator) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  std::string message = absl::StrCat(call, ": NCCL: ", ncclGetErrorString(result));
  const char* const detail = communicator == nullptr ? nullptr : ncclGetLastError(communicator);
  if (detail != nullptr && *detail != '\0') absl::StrAppend(&message, " (", detail, ")");
  absl::StrAppend(&message, "; NCCL_DEBUG=INFO tells more");
  return absl::Status(CodeOf(result), message);
}

Handle::~Handle() { Abort(); }

absl::Status Handle::Start(absl::string_view call,
                           const std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>& start) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // Communicators of their own make progress of their own.
  config.splitShare = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (gone_) return absl::AbortedError(absl::StrCat(call, ": aborted"));
  return ToStatus(start(&communicator_, &config), call, nullptr);
}

absl::Status Handle::Call(absl::string_view call,
                          const std::function<ncclResult_t(ncclComm_t)>& make) {
  ncclResult_t result = ncclSuccess;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (gone_) return absl::AbortedError(absl::StrCat(call, ": aborted"));
    result = make(communicator_);
    ZEROTH_RETURN_IF_ERROR(ToStatus(result, call, communicator_));
  }
  return result == ncclInProgress ? Await(call) : absl::OkStatus();
}

absl::Status Handle::Await(absl::string_view call) {
  const absl::Time deadline = absl::Now() + timeout_;
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
        is_made_ = state == ncclSuccess || is_made_;
        return ToStatus(state, call, communicator_);
      }
    }
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          call, ": timeout after ", absl::FormatDuration(timeout_), " while NCCL prepares ", name_,
          "; see that the nodes reach each other (NCCL_SOCKET_IFNAME), and what NCCL_DEBUG=INFO "
          "tells"));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, kLongestPause);
  }
}

absl::Status Handle::AsyncError() {
  std::lock_guard<std::mutex> lock(mutex_);
  // Until then Await tells, which knows the call.
  if (gone_ || !is_made_) return absl::OkStatus();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
  return ToStatus(asked == ncclSuccess ? state : asked, name_, communicator_);
}

void Handle::Abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (gone_) return;
  gone_ = true;
  // Whatever it says, nobody can do more.
  if (communicator_ != nullptr) static_cast<void>(ncclCommAbort(communicator_));
  communicator_ = nullptr;
}

bool Handle::TryDestroy() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (gone_) return true;
  if (communicator_ != nullptr) {
    if (!finalizing_) {
      finalizing_ = true;
      static_cast<void>(ncclCommFinalize(communicator_));
    }
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &state);
    if (asked == ncclSuccess && state == ncclInProgress) return false;
    static_cast<void>(ncclCommDestroy(communicator_));
  }
  communicator_ = nullptr;
  gone_ = true;
  return true;
}

}  // namespace zeroth::nccl
