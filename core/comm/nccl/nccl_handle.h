// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One communicator of the NCCL library.

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_HANDLE_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_HANDLE_H_

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0)
typedef struct ncclWindow_vidmem* ncclWindow_t;  // as later headers have it
#endif

namespace zeroth::nccl {

// The library's words for `result` of `call`. Unavailable for a peer or a network that fails,
// InvalidArgument and FailedPrecondition for wrong use, Internal otherwise.
absl::Status ToStatus(ncclResult_t result, absl::string_view call, ncclComm_t communicator);

// Every call is non-blocking (ncclConfig_t::blocking = 0): the library works on its own threads,
// and is asked how far it is, so that it can be aborted from another thread at any time. No lock is
// held while anyone waits. Thread-safe.
class Handle {
 public:
  // `name` is for messages; `timeout` bounds what the library does before it has enqueued a call.
  Handle(absl::string_view name, absl::Duration timeout) : name_(name), timeout_(timeout) {}
  // Aborts what was not destroyed.
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const std::string& name() const { return name_; }

  // Begins to make the communicator, which all its ranks do at once, and Await ends it. `start` is
  // one of the library's functions that take a place for it and its configuration; it may leave
  // none, where this rank takes no part. `by_copy_engine`: it is to use no multiprocessors where it
  // can do without (see copy_engine.h).
  absl::Status Start(absl::string_view call, bool by_copy_engine,
                     const std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>& start);
  // Returns when the library has done `call` or enqueued it. Aborted if the communicator is gone.
  absl::Status Await(absl::string_view call);
  // Makes calls on the communicator, and awaits them: what they return does not say whether they
  // are done.
  absl::Status Call(absl::string_view call, const std::function<ncclResult_t(ncclComm_t)>& make);

  // Keeps a handle whose Start began on this communicator and did not end: the library may still
  // write to it.
  void Keep(std::shared_ptr<Handle> unfinished) { unfinished_ = std::move(unfinished); }

  // Memory that the library knows as a symmetric window, until it is told otherwise or the
  // communicator goes. All ranks register windows of one size in one order; each gives up its own
  // once no call uses it.
  absl::Status RegisterWindow(void* data, size_t bytes);
  void DeregisterWindow(const void* data);
  // Whether all of [data, data + bytes) lies in one window.
  bool HasWindow(const void* data, size_t bytes) const;
  // The world ends: those that are left go with the communicator.
  void ForgetWindows();

  // What the library has to report of work that it has enqueued; OK while all goes well, and before
  // the first Await has ended, whose errors are its own to report.
  absl::Status AsyncError();
  // Ends all work, at once, and frees the communicator: not before every graph that has captured it
  // is gone, nor before all other work of the device is done (see HandleSet::AbortAll).
  void Abort();
  // The communicator, for whoever aborts it together with others; nullptr if there is none. From
  // now on this has none.
  ncclComm_t Release();
  // Begins to free it, after what is enqueued, unless it has windows. True if that is done, or
  // needs no doing. No graph may have captured it.
  bool TryDestroy();

 private:
  const std::string name_;
  const absl::Duration timeout_;
  struct Window {
    size_t bytes = 0;
    ncclWindow_t window = nullptr;
    bool registered = false;
  };
  mutable std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  bool is_made_ = false;  // as Await has seen
  // The library may write to these, which never move, as long as it is at work.
  std::map<const char*, Window> windows_;
  int registered_ = 0;
  bool gone_ = false;
  bool finalizing_ = false;
  std::shared_ptr<Handle> unfinished_;
};

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_HANDLE_H_
