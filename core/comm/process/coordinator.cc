// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/coordinator.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/descriptor_limit.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/core/comm/process/coordinator_server.h"

namespace zeroth {

Coordinator::Coordinator(std::string address, int port, Socket stop) noexcept
    : address_(std::move(address)), port_(port), stop_(std::move(stop)) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const Options& options) {
  // Beside a connection for each rank and the files that are open, such as those of the data: some
  // connections that have not joined, and more files. It works with few.
  constexpr uint64_t kWanted = 256;
  constexpr uint64_t kNeeded = 32;
  const auto ranks = static_cast<uint64_t>(options.world_size);
  const uint64_t open = OpenDescriptors();
  const uint64_t limit = RaiseDescriptorLimit(open + ranks + kWanted);
  if (limit < open + ranks + kNeeded) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "rank 0 needs a connection for each of ", ranks, " ranks and ", kNeeded,
        " other files beside the ", open, " that are open, but this process may open only ", limit,
        "; raise the hard limit (ulimit -Hn, or LimitNOFILE of the service)"));
  }
  ZEROTH_ASSIGN_OR_RETURN(Listener listener,
                          Listen(options.host, options.port, options.others_elsewhere));
  if (listener.everywhere) {
    std::fprintf(stderr,
                 "rank 0: '%s' does not resolve to a reachable local address; listening on all "
                 "interfaces, port %d, until all ranks have joined\n",
                 options.host.c_str(), listener.port);
  }
  if (listener.reachable && options.key.secret.empty()) {
    std::fprintf(stderr,
                 "warning: there is no job secret: until all ranks have joined, anyone who can "
                 "connect to port %d of this machine can pose as a rank, and read or change the "
                 "model. Set ZEROTH_JOB_SECRET to the same random text on all ranks\n",
                 listener.port);
  }
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open()) {
    return absl::UnavailableError(absl::StrCat("cannot create an eventfd: ", std::strerror(errno)));
  }
  ZEROTH_ASSIGN_OR_RETURN(Socket epoll, WatchForRanks(listener, stop));
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(listener.address, listener.port, std::move(stop)));
  ZEROTH_ASSIGN_OR_RETURN(
      coordinator->thread_,
      StartThread("the coordinator",
                  [options, stop = coordinator->stop_.descriptor(), listener = std::move(listener),
                   epoll = std::move(epoll)]() mutable {
                    ServeRanks(options, std::move(listener), stop, std::move(epoll));
                  }));
  return coordinator;
}

Coordinator::~Coordinator() {
  static_cast<void>(eventfd_write(stop_.descriptor(), 1));
  if (thread_.joinable()) thread_.join();
}

}  // namespace zeroth
