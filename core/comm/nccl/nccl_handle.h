// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One communicator of the NCCL library.

#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "zeroth/core/base/dtype.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0)
typedef struct ncclWindow_vidmem* ncclWindow_t;  // as in later headers
#endif

namespace zeroth::nccl {

// The error for `result` of `call`, with NCCL's message. Unavailable if a peer or the network has
// failed, InvalidArgument or FailedPrecondition for wrong use, Internal otherwise.
absl::Status ToStatus(ncclResult_t result, absl::string_view call, ncclComm_t communicator);

// Returns the ranks that make unique ids for a communicator of `ranks` ranks: the first rank of
// each part, for the fewest equal parts of at most `ranks_per_root` ranks. NCCL's start lets each
// part meet at its root. Returns rank 0 alone if the library is older than 2.23.
std::vector<int> RootsOf(int ranks, int ranks_per_root);
// Calls ncclCommInitRankConfig, or ncclCommInitRankScalable with the ids of several roots.
ncclResult_t InitRank(ncclComm_t* communicator, int ranks, int rank, std::vector<ncclUniqueId>& ids,
                      ncclConfig_t* config);

// Returns NCCL's element type.
ncclDataType_t TypeOf(DType dtype);

// An NCCL communicator in non-blocking mode (ncclConfig_t::blocking = 0). NCCL works on its own
// threads and is polled for its progress, so that another thread can abort it at any time. No lock
// is held while a thread waits. Thread-safe.
class Handle {
 public:
  // `name` is for messages. `timeout` limits how long NCCL may need to enqueue a call.
  Handle(absl::string_view name, absl::Duration timeout) : name_(name), timeout_(timeout) {}
  // Aborts the communicator unless it was destroyed.
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const std::string& name() const { return name_; }

  // Starts to create the communicator, on all its ranks at once; Await completes it. `start` is one
  // of NCCL's functions that create a communicator with a configuration. It may leave the
  // communicator null, if this rank does not join. `by_copy_engine`: the communicator uses no SMs
  // where it can avoid them (see copy_engine.h).
  absl::Status Start(absl::string_view call, bool by_copy_engine,
                     const std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>& start);
  // Returns when NCCL has completed or enqueued `call`. Aborted if the communicator is gone.
  absl::Status Await(absl::string_view call);
  // Makes calls on the communicator, and awaits them, because their results do not say whether they
  // are complete.
  absl::Status Call(absl::string_view call, const std::function<ncclResult_t(ncclComm_t)>& make);

  // Keeps a handle that this communicator started to create but did not complete: NCCL may still
  // write to it.
  void Keep(std::shared_ptr<Handle> unfinished) { unfinished_ = std::move(unfinished); }

  // Registers memory as a symmetric window, until it is deregistered or the communicator is freed.
  // All ranks register windows of the same size in the same order. Each rank deregisters its own
  // window once no call uses it.
  absl::Status RegisterWindow(void* data, size_t bytes);
  void DeregisterWindow(const void* data);
  // True if all of [data, data + bytes) lies in one window.
  bool HasWindow(const void* data, size_t bytes) const;
  // Leaves the remaining windows to be freed with the communicator, because the world ends.
  void ForgetWindows();

  // NCCL's error in work that it has enqueued, or OK. Also OK while a call is awaited, and after
  // one that has failed: its caller gets the error, with the call's name.
  absl::Status AsyncError();
  // Stops all work at once, and frees the communicator. Freeing waits until every graph that has
  // captured it is gone, and all other work of the device is done (see HandleSet::AbortAll).
  void Abort();
  // Transfers ownership of the communicator to the caller, which aborts several together; nullptr
  // if there is none.
  ncclComm_t Release();
  // Starts to free the communicator, after its enqueued work, unless it has windows. Returns true
  // once it is freed. No graph may have captured it.
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
  bool last_call_is_done_ = false;  // the last Await has returned OK
  // NCCL may write to the elements while it works, so they must never move.
  std::map<const char*, Window> windows_;
  int registered_ = 0;
  bool gone_ = false;
  bool finalizing_ = false;
  std::shared_ptr<Handle> unfinished_;
};

}  // namespace zeroth::nccl
