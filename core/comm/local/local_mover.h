// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves data between ranks that share a device's memory: at once in host memory, or as work of a
// device's stream.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/host_reduce.h"
#include "zeroth/core/comm/local/rendezvous.h"
#include "zeroth/core/device/device.h"

namespace zeroth {

class LocalMover {
 public:
  virtual ~LocalMover() = default;
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;
  // Does what ReduceOnHost does, in the mover's memory.
  virtual absl::Status Reduce(const HostReduction& reduction) = 0;
};

// Moves by memcpy and ReduceOnHost.
LocalMover& HostMover();

// Moves rank `rank`'s share of a collective's data. `ranks` has the buffers of all ranks. All ranks
// must be in the same call, and none may reuse its buffers before all have moved their shares.
absl::Status CopyRankPieces(const Collective& collective, int rank,
                            absl::Span<const LocalBuffers> ranks, LocalMover& mover);

// Registers the movers of a type of device whose streams run behind the host. Put one at namespace
// scope in the mover's .cc, in a target with alwayslink. Thread-safe, as NewLocalMover is.
struct LocalMoverRegistration {
  using Factory = std::function<absl::StatusOr<std::unique_ptr<LocalMover>>(Stream&)>;
  LocalMoverRegistration(absl::string_view device_type, Factory factory);
};
// Returns a mover that enqueues on `stream`. Unimplemented if none for its device is linked in.
absl::StatusOr<std::unique_ptr<LocalMover>> NewLocalMover(Stream& stream);

}  // namespace zeroth
