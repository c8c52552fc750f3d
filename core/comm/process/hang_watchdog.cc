// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/hang_watchdog.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <utility>

namespace zeroth {
namespace {

std::atomic<int64_t> time_ms{absl::ToInt64Milliseconds(HangWatchdog::kTime)};

}  // namespace

HangWatchdog::HangWatchdog(bool ends_process, std::function<std::string()> what) {
  try {
    thread_ = std::jthread([ends_process, time = std::chrono::milliseconds(time_ms),
                            what = std::move(what)](const std::stop_token& in_time) {
      std::mutex mutex;
      std::condition_variable_any changed;
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait_for(lock, in_time, time, [] { return false; });
      // Asked here, since wait_for may find the stop after it has asked its predicate.
      if (in_time.stop_requested()) return;
      std::fprintf(stderr, "%s; this process %s\n", what().c_str(),
                   ends_process ? "ends" : "stays (LaunchOptions::ends_stuck_process is false)");
      std::fflush(stderr);
      if (!ends_process) return;
      // Runs no destructor, which could wait for what hangs.
      std::_Exit(EXIT_FAILURE);
    });
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "cannot start a thread that would say if this process hangs: %s\n",
                 error.what());
  }
}

void HangWatchdog::ShortenForTest(absl::Duration time) {
  time_ms = absl::ToInt64Milliseconds(time);
}

}  // namespace zeroth
