// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds rank 0's process, as a rank's environment says, and connects to the coordinator there. Rank
// 0 starts the coordinator first.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/process/coordinator.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/socket.h"

namespace zeroth {

struct Meeting {
  std::unique_ptr<Coordinator> coordinator;  // only in rank 0's process
  std::string place;                         // "host:port", for messages
  Socket socket;
  FrameReader frames;  // bytes that arrived after the welcome
};

// Returns when all ranks have joined. DeadlineExceeded names the ranks that did not join within
// options.timeout. InvalidArgument says what differs between the ranks. Unauthenticated says that
// the secrets differ. If another job listens at the address, the rank keeps trying: that job may be
// an earlier one that is ending.
absl::StatusOr<Meeting> MeetAllRanks(const ProcessEnvironment& environment,
                                     const LaunchOptions& options, absl::string_view back_end);

// Tells all ranks of `environment` where rank 0 listens, through their launcher (MPI). It is for
// ranks whose environment lacks the address. Collective: returns rank 0's `own`, also if that is an
// error; what other ranks pass is ignored. DeadlineExceeded after options.timeout or one minute,
// whichever is longer.
using AddressExchange = std::function<absl::StatusOr<std::string>(
    const ProcessEnvironment& environment, const absl::StatusOr<std::string>& own,
    const LaunchOptions& options)>;

// Registers the program's exchange, of which there is at most one. Put it at namespace scope in a
// target with alwayslink.
struct AddressExchangeRegistration {
  explicit AddressExchangeRegistration(AddressExchange exchange);
};

}  // namespace zeroth
