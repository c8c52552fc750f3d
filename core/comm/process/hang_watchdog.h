// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"

namespace zeroth {

// When peers are gone, a communication library cannot always be stopped: a call may not return, or
// a device may wait forever. Then only the end of the process frees what it holds, and tells the
// launcher. So unless it is destroyed within kTime, this calls `what` on a separate thread, prints
// the result as a line on standard error, and ends the process with exit code 1, or lets it stay if
// `ends_process` is false (LaunchOptions::ends_stuck_process). `what` must not block. If no thread
// can be started, it only says so there.
class HangWatchdog {
 public:
  static constexpr absl::Duration kTime = absl::Seconds(60);

  HangWatchdog(bool ends_process, std::function<std::string()> what);

  // Applies to objects that are created from now on in this process.
  static void ShortenForTest(absl::Duration time);

 private:
  std::jthread thread_;
};

}  // namespace zeroth
