// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How a rank comes from what its environment says to a connection with rank 0's process, which in
// rank 0 itself is started here.

#ifndef ZEROTH_CORE_COMM_PROCESS_MEETING_H_
#define ZEROTH_CORE_COMM_PROCESS_MEETING_H_

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
  std::unique_ptr<Coordinator> coordinator;  // of rank 0
  std::string place;                         // "host:port", for messages
  Socket socket;
  FrameReader frames;  // what came behind the welcome
};

// Returns when all ranks are there. DeadlineExceeded names ranks that did not come within
// options.timeout; InvalidArgument says what does not fit; Unauthenticated, whose secret differs.
// Another job at the place is waited for, since it may be an earlier one that is ending.
absl::StatusOr<Meeting> MeetAllRanks(const ProcessEnvironment& environment,
                                     const LaunchOptions& options, absl::string_view back_end);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_MEETING_H_
